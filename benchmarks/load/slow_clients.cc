// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/slow_clients.h"

#include <cerrno>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace exeunt::load {

SlowClients::SlowClients(uint16_t port, int sockets) : port_(port), sockets_(static_cast<size_t>(sockets), -1) {
  for (size_t i = 0; i < sockets_.size(); ++i) open(i);
}

SlowClients::~SlowClients() {
  for (const int socket : sockets_) {
    if (socket >= 0) ::close(socket);
  }
}

void SlowClients::open(size_t nth) {
  int& socket = sockets_[nth];
  if (socket >= 0) ::close(socket);
  socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const int small = 1024;  // what is not read must soon stop its sender
  (void)::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  std::string first = "P";
  if (nth % 3 == 1) first = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{";
  if (nth % 3 == 2) {
    first.clear();
    for (int i = 0; i < 20; ++i) first += "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  (void)!::send(socket, first.data(), first.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void SlowClients::drip() {
  for (size_t n = 0; n < sockets_.size() / 20 + 1; ++n, turn_ = (turn_ + 1) % sockets_.size()) {
    const int socket = sockets_[turn_];
    char byte = 'x';
    const bool ended = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    const bool sent = turn_ % 3 == 2 || ::send(socket, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN;
    if (!ended && sent) continue;
    ++reopened_;
    open(turn_);
  }
}

}  // namespace exeunt::load
