// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/serve/attack_crowd.h"

#include <cerrno>
#include <chrono>
#include <map>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace exeunt::load {
namespace {

constexpr size_t kBody = 2'000'000;  // as large as may be by default
constexpr size_t kObjects = 260'000;

std::string head(std::string_view fields, std::string_view host = "localhost") {
  return "POST /predict HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" + std::string(fields);
}

std::string request_of(std::string_view attack) {
  const std::string json = "Content-Type: application/json\r\n";
  if (attack == "objects" || attack == "origin" || attack == "host") {
    std::string body = R"({"inputs":"a","z":[{})";
    for (size_t i = 1; i < kObjects; ++i) body += ",{}";
    body += "]}";
    const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    if (attack == "origin") return head("Origin: https://evil.example\r\nContent-Type: text/plain\r\n" + length) + body;
    return head(json + length, attack == "host" ? "evil.example" : "localhost") + body;
  }
  if (attack == "body") {
    return head(json + "Content-Length: " + std::to_string(kBody) + "\r\n\r\n") + std::string(kBody - 1, ' ');
  }
  if (attack == "chunks") {
    std::string out = head(json + "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t sent = 0; sent + 65'536 < kBody; sent += 65'536) out += "10000\r\n" + std::string(65'536, ' ') + "\r\n";
    return out;
  }
  if (attack == "unread") {
    std::string out;
    for (int i = 0; i < 500; ++i) out += "GET /playground.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    return out;
  }
  return attack == "head" ? head("X: ") + std::string(4000, 'x') : "";
}

const std::string& request_for(std::string_view attack) {
  static const std::map<std::string_view, std::string> all = [] {
    std::map<std::string_view, std::string> out;
    for (const std::string_view each : kAttacks) out.emplace(each, request_of(each));
    return out;
  }();
  return all.at(attack);
}

}  // namespace

AttackCrowd::AttackCrowd(uint16_t port, int sockets, std::vector<std::string_view> attacks)
    : port_(port), attackers_(static_cast<size_t>(sockets)) {
  for (size_t i = 0; i < attackers_.size(); ++i) {
    attackers_[i].attack = attacks[i % attacks.size()];
    (void)request_for(attackers_[i].attack);
    open(attackers_[i]);
  }
  thread_ = std::thread([this] { run(); });
}

AttackCrowd::~AttackCrowd() {
  ending_ = true;
  thread_.join();
  for (const Attacker& attacker : attackers_) {
    if (attacker.socket >= 0) ::close(attacker.socket);
  }
}

void AttackCrowd::open(Attacker& attacker) {
  if (attacker.socket >= 0) ::close(attacker.socket);
  attacker.done = 0;
  attacker.socket = ::socket(AF_INET, SOCK_STREAM, 0);
  if (attacker.attack == "unread") {
    const int small = 1024;
    (void)::setsockopt(attacker.socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)::connect(attacker.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ++opened_;
}

// Sends what goes, drops what comes, and begins again when the server has ended it.
void AttackCrowd::step(Attacker& attacker) {
  const std::string& request = request_for(attacker.attack);
  bool ended = false;
  if (attacker.done < request.size()) {
    const ssize_t sent = ::send(attacker.socket, request.data() + attacker.done, request.size() - attacker.done,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    ended = sent < 0 && errno != EAGAIN;
    if (sent > 0) attacker.done += static_cast<size_t>(sent);
    if (sent > 0) sent_ += sent;
  }
  char dropped[4096];
  const int flags = MSG_DONTWAIT | (attacker.attack == "unread" ? MSG_PEEK : 0);
  const ssize_t got = ::recv(attacker.socket, dropped, sizeof dropped, flags);
  ended = ended || got == 0 || (got < 0 && errno != EAGAIN);
  if (ended) open(attacker);
}

void AttackCrowd::run() {
  while (!ending_) {
    for (Attacker& attacker : attackers_) step(attacker);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace exeunt::load
