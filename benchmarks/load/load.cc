// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/load.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace exeunt::load {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMaxWait = 0.02;  // seconds, so that ticks come in time

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

sockaddr_in address_of(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection to the server, with the request it is at.
struct Line {
  int socket = -1;
  SSL* tls = nullptr;
  bool busy = false, walks = false;
  size_t request = 0, written = 0, stop_at = 0;  // `stop_at`: bytes after which the sender breaks off
  Clock::time_point due = {};
  ReplyReader reader = {};
};

// As send() and recv().
ssize_t result_of(SSL* tls, int result) {
  if (result > 0) return result;
  const int why = SSL_get_error(tls, result);
  errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
  return why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t send_some(const Line& line, const char* bytes, size_t size) {
  if (line.tls == nullptr) return ::send(line.socket, bytes, size, MSG_NOSIGNAL);
  ERR_clear_error();
  return result_of(line.tls, SSL_write(line.tls, bytes, static_cast<int>(size)));
}

ssize_t receive_some(const Line& line, char* bytes, size_t size) {
  if (line.tls == nullptr) return ::recv(line.socket, bytes, size, 0);
  ERR_clear_error();
  return result_of(line.tls, SSL_read(line.tls, bytes, static_cast<int>(size)));
}

struct Due {
  Clock::time_point time;
  size_t request;
};

class Generator {
 public:
  explicit Generator(const LoadPlan& plan)
      : plan_(plan), random_(plan.seed), poll_(::epoll_create1(0)), lines_(static_cast<size_t>(plan.connections)) {
    if (poll_ < 0 || plan.requests.empty()) throw std::runtime_error("load: no epoll, or nothing to send");
    for (size_t i = 0; i < lines_.size(); ++i) free_.push_back(i);
    if (!plan.tls) return;
    (void)std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a socket as to a file
    tls_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(tls_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  ~Generator() {
    for (Line& line : lines_) drop(line);
    ::close(poll_);
    SSL_CTX_free(tls_);
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  LoadResult run();

 private:
  void schedule(Clock::time_point now);
  void start_waiting();
  bool start(Line& line, size_t index, const Due& due);
  bool connect(Line& line, size_t index);
  void push(Line& line, size_t index);
  void pull(Line& line, size_t index);
  void count(const Line& line, const Reply& reply);
  void end(Line& line, size_t index, bool keep);
  void fail(Line& line, size_t index);
  static void drop(Line& line);
  [[nodiscard]] bool chance(double share) { return share > 0 && uniform_(random_) < share; }

  const LoadPlan& plan_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  int poll_;
  SSL_CTX* tls_ = nullptr;
  std::vector<Line> lines_;
  std::deque<size_t> free_ = {};  // the one that rested longest comes first, so that none rests for long
  std::deque<Due> waiting_ = {};
  Clock::time_point begin_ = {}, counted_from_ = {}, end_ = {}, next_ = {}, last_ = {};
  size_t counter_ = 0;
  LoadResult result_ = {};
};

void Generator::drop(Line& line) {
  SSL_free(line.tls);
  if (line.socket >= 0) ::close(line.socket);
  line = Line{};
}

bool Generator::connect(Line& line, size_t index) {
  line.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (line.socket < 0) return false;
  const int on = 1;
  (void)::setsockopt(line.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const sockaddr_in address = address_of(plan_.port);
  if (tls_ != nullptr) {
    sockaddr_in own = address_of(0);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    (void)::bind(line.socket, reinterpret_cast<const sockaddr*>(&own), sizeof own);
  }
  if (::connect(line.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return false;
  }
  if (tls_ != nullptr) {
    line.tls = SSL_new(tls_);
    SSL_set_fd(line.tls, line.socket);
    SSL_set_connect_state(line.tls);
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP;
  event.data.u64 = index;
  return ::epoll_ctl(poll_, EPOLL_CTL_ADD, line.socket, &event) == 0;
}

// Brings the requests whose time has come into the queue.
void Generator::schedule(Clock::time_point now) {
  const bool open = plan_.rate > 0;
  while (next_ <= now && (open ? next_ : now) < end_) {
    if (!open && waiting_.size() + 1 > free_.size()) return;  // closed loop: one for each that is free
    waiting_.push_back({open ? next_ : now, counter_++ % plan_.requests.size()});
    result_.due += waiting_.back().time >= counted_from_ ? 1 : 0;
    last_ = waiting_.back().time;
    if (open) next_ += duration_of(-std::log(1 - uniform_(random_)) / plan_.rate);
  }
}

void Generator::start_waiting() {
  while (!waiting_.empty() && !free_.empty()) {
    const size_t index = free_.front();
    const Due due = waiting_.front();
    free_.pop_front();
    waiting_.pop_front();
    if (!start(lines_[index], index, due)) {
      ++result_.refused;
      drop(lines_[index]);
      free_.push_back(index);
    }
  }
}

bool Generator::start(Line& line, size_t index, const Due& due) {
  // A server may end a connection that rests; what is sent on it then was never accepted, and is not lost.
  char byte = 0;
  const ssize_t seen = line.socket < 0 ? 1 : ::recv(line.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen == 0 || (seen < 0 && errno != EAGAIN && errno != EINTR)) drop(line);
  line.busy = true;
  line.request = due.request;
  line.due = due.time;
  line.written = 0;
  line.walks = chance(plan_.walk_away);
  const std::string& text = plan_.requests[line.request];
  line.stop_at = chance(plan_.break_off) ? text.size() / 2 : text.size();
  if (line.socket < 0) return connect(line, index);  // sent once it is there
  push(line, index);
  return true;
}

void Generator::push(Line& line, size_t index) {
  const std::string& text = plan_.requests[line.request];
  while (line.written < line.stop_at) {
    const ssize_t sent = send_some(line, text.data() + line.written, line.stop_at - line.written);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return fail(line, index);
    line.written += static_cast<size_t>(sent);
  }
  if (line.stop_at < text.size() || line.walks) {
    ++result_.given_up;
    end(line, index, false);
  }
}

void Generator::pull(Line& line, size_t index) {
  char bytes[65536];
  while (line.socket >= 0) {
    const ssize_t got = receive_some(line, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return line.busy ? fail(line, index) : drop(line);
    line.reader.feed({bytes, static_cast<size_t>(got)});
    const auto reply = line.reader.next();
    if (!reply || !line.busy) continue;
    if (line.due >= counted_from_) count(line, *reply);
    end(line, index, !reply->closes);
  }
}

void Generator::count(const Line& line, const Reply& reply) {
  const auto ms = static_cast<float>(1000 * seconds_between(line.due, Clock::now()));
  ++result_.statuses[reply.status];
  if (reply.status == 200) result_.ok_ms.push_back(ms);
  if (reply.status == 429) result_.shed_ms.push_back(ms);
  if (reply.status == 504) result_.late_ms.push_back(ms);
  if (plan_.on_reply) plan_.on_reply(line.request, reply);
}

void Generator::end(Line& line, size_t index, bool keep) {
  if (keep) {
    line.busy = false;
  } else {
    drop(line);
  }
  free_.push_back(index);
}

// Nothing was sent: nobody was there to take it. Otherwise it is lost.
void Generator::fail(Line& line, size_t index) {
  ++(line.written == 0 && !line.reader.partial() ? result_.refused : result_.lost);
  end(line, index, false);
}

LoadResult Generator::run() {
  begin_ = next_ = last_ = Clock::now();
  counted_from_ = begin_ + duration_of(plan_.warm_seconds);
  end_ = counted_from_ + duration_of(plan_.seconds);
  auto tick = begin_;
  std::vector<epoll_event> events(256);
  while (true) {
    const auto now = Clock::now();
    if (plan_.tick && now >= tick) {
      if (!plan_.tick(seconds_between(begin_, now))) end_ = std::min(end_, now);
      tick = now + std::chrono::milliseconds(100);
    }
    schedule(now);
    start_waiting();
    const bool done = now >= end_ && waiting_.empty() && free_.size() == lines_.size();
    if (done || now >= end_ + duration_of(plan_.patience_s)) break;
    const double rest = plan_.rate > 0 && now < end_ ? seconds_between(Clock::now(), next_) : kMaxWait;
    const auto wait = static_cast<long>(1e9 * std::clamp(rest, 0.0, kMaxWait));
    const timespec limit{0, wait};
    const int count = ::epoll_pwait2(poll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
    for (int i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(events[static_cast<size_t>(i)].data.u64);
      Line& line = lines_[index];
      if (line.socket >= 0 && line.busy && line.written < line.stop_at) push(line, index);
      if (line.socket >= 0) pull(line, index);
    }
  }
  for (const Line& line : lines_) result_.lost += line.busy ? 1 : 0;
  result_.unsent = static_cast<int64_t>(waiting_.size());
  result_.seconds = plan_.rate > 0 ? plan_.seconds : seconds_between(counted_from_, last_);
  return std::move(result_);
}

}  // namespace

int64_t LoadResult::count(int status) const {
  const auto found = statuses.find(status);
  return found == statuses.end() ? 0 : found->second;
}

LoadResult run_load(const LoadPlan& plan) {
  return Generator(plan).run();
}

std::string post_request(const std::string& path, const std::string& body, const std::string& fields) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Exchange converse(uint16_t port, const std::string& bytes, double patience_s, double silence_s) {
  Exchange out;
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = address_of(port);
  const auto limit = Clock::now() + duration_of(patience_s);
  out.connected = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  size_t sent = 0;
  bool silent = false;
  ReplyReader reader;
  while (out.connected && Clock::now() < limit) {
    pollfd wait{socket, static_cast<short>(sent < bytes.size() ? POLLIN | POLLOUT : POLLIN), 0};
    const double rest = seconds_between(Clock::now(), limit);
    if (::poll(&wait, 1, static_cast<int>(1000 * (silent ? rest : std::min(rest, silence_s)))) <= 0) {
      if (silent) break;
      silent = true;
      ::shutdown(socket, SHUT_WR);
      continue;
    }
    if ((wait.revents & POLLOUT) != 0) {
      const ssize_t done = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      sent = done > 0 ? sent + static_cast<size_t>(done) : bytes.size();  // one that is cut off may still read why
    }
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    char buffer[65536];
    const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
    out.ended = got <= 0;
    if (out.ended) break;
    reader.feed({buffer, static_cast<size_t>(got)});
    while (auto reply = reader.next()) out.replies.push_back(std::move(*reply));
  }
  out.partial = reader.partial();
  ::close(socket);
  return out;
}

Reply ask(uint16_t port, const std::string& request) {
  std::string closing = request;
  closing.insert(closing.find("\r\n"), "\r\nConnection: close");
  Exchange got = converse(port, closing);
  return got.replies.empty() ? Reply{} : std::move(got.replies.front());
}

}  // namespace exeunt::load
