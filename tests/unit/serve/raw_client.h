// SPDX-License-Identifier: Apache-2.0
// A client that sends arbitrary bytes and reads what comes back.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace exeunt::serve {

struct RawResponse {
  int status = 0;
  std::string head = {}, body = {};
  [[nodiscard]] bool closes() const { return head.find("connection: close") != std::string::npos; }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return socket_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  void stop_sending() { ::shutdown(socket_, SHUT_WR); }

  // As much as goes at once.
  void send_some(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // One whole response; nothing if the connection ends or time runs out before it.
  std::optional<RawResponse> receive(int timeout_ms = 60'000) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
      if (auto response = parse()) return response;
      if (!more(limit)) return std::nullopt;
    }
  }
  // Does the server end the connection in time, and without further bytes?
  bool ends(int timeout_ms = 60'000) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (more(limit)) {
    }
    return ended_;
  }
  // Has the server closed it, whether or not all was read?
  [[nodiscard]] bool hung_up() const {
    pollfd state{socket_, 0, 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
  }
  // What came and was not part of a response that was received.
  [[nodiscard]] std::string_view unparsed() const { return held_; }

 private:
  bool more(std::chrono::steady_clock::time_point limit) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    pollfd wait{socket_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[65536];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    ended_ = got <= 0;
    if (ended_) return false;
    held_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  std::optional<RawResponse> parse() {
    const size_t end = held_.find("\r\n\r\n");
    if (end == std::string::npos) return std::nullopt;
    RawResponse out;
    out.head = held_.substr(0, end + 4);
    out.status = std::stoi(out.head.substr(9, 3));
    size_t length = 0;
    if (const size_t at = out.head.find("content-length: "); at != std::string::npos)
      length = std::stoul(out.head.substr(at + 16));
    if (held_.size() < end + 4 + length) return std::nullopt;
    out.body = held_.substr(end + 4, length);
    held_.erase(0, end + 4 + length);
    return out;
  }

  int socket_;
  bool connected_ = false, ended_ = false;
  std::string held_;
};

inline std::string post_text(std::string_view path, std::string_view body, std::string_view fields = {}) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(fields) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace exeunt::serve
