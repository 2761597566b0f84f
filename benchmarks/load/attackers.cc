// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/attackers.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace exeunt::load {
namespace {

constexpr size_t kBody = 2'000'000;  // as large as may be by default
constexpr size_t kObjects = 260'000;
constexpr int kSendBuffer = 64 << 10;

std::string head(std::string_view fields, std::string_view host = "localhost",
                 std::string_view line = "POST /predict") {
  return std::string(line) + " HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" + std::string(fields);
}

constexpr std::string_view kJson = "Content-Type: application/json\r\n";

std::string whole_body(std::string_view line) {
  return head(std::string(kJson) + "Content-Length: " + std::to_string(kBody) + "\r\n\r\n", "localhost", line) +
         std::string(kBody - 1, ' ');
}

std::string in_chunks(std::string_view line) {
  std::string out = head(std::string(kJson) + "Transfer-Encoding: chunked\r\n\r\n", "localhost", line);
  for (size_t sent = 0; sent + 65'536 < kBody; sent += 65'536) out += "10000\r\n" + std::string(65'536, ' ') + "\r\n";
  return out;
}

// Bodies for every route that needs no key, by every method that it takes.
std::vector<std::string> public_requests() {
  std::vector<std::string> out;
  for (const char* path : {"/health", "/ready", "/ping", "/v2/health/live", "/v2/health/ready", "/", "/favicon.ico",
                           "/playground.css", "/playground.js"}) {
    for (const char* method : {"GET ", "HEAD ", "OPTIONS "}) {
      const std::string line = std::string(method) + path;
      out.push_back(out.size() % 2 == 0 ? whole_body(line) : in_chunks(line));
    }
  }
  out.push_back(whole_body("OPTIONS *"));
  return out;
}

std::string request_of(std::string_view attack) {
  const std::string json(kJson);
  if (attack == "objects" || attack == "origin" || attack == "host") {
    const std::string body = body_of_objects();
    const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    if (attack == "origin") return head("Origin: https://evil.example\r\nContent-Type: text/plain\r\n" + length) + body;
    return head(json + length, attack == "host" ? "evil.example" : "localhost") + body;
  }
  if (attack == "body") return whole_body("POST /predict");
  if (attack == "chunks") return in_chunks("POST /predict");
  if (attack == "unread") {
    std::string out;
    for (int i = 0; i < 500; ++i) out += "GET /playground.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    return out;
  }
  return attack == "head" ? head("X: ") + std::string(4000, 'x') : "";
}

// What an attacker sends at its nth attempt.
const std::string& request_for(std::string_view attack, size_t nth) {
  static const auto all = [] {
    std::map<std::string_view, std::vector<std::string>> out;
    for (const std::string_view each : kAttacks) out[each] = {request_of(each)};
    for (const std::string_view each : kTlsAttacks) out[each] = {""};
    out["public"] = public_requests();
    return out;
  }();
  const std::vector<std::string>& requests = all.at(attack);
  return requests[nth % requests.size()];
}

}  // namespace

std::string body_of_objects() {
  std::string body = R"({"inputs":"a","z":[{})";
  for (size_t i = 1; i < kObjects; ++i) body += ",{}";
  return body + "]}";
}

Attackers::Attackers(uint16_t port, int sockets, std::vector<std::string_view> attacks, bool tls)
    : port_(port), tls_(tls ? SSL_CTX_new(TLS_client_method()) : nullptr), attackers_(static_cast<size_t>(sockets)) {
  if (tls_ != nullptr) {
    (void)std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a socket as to a file
    SSL_CTX_set_mode(tls_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  for (size_t i = 0; i < attackers_.size(); ++i) {
    attackers_[i].attack = attacks[i % attacks.size()];
    attackers_[i].requests = i / attacks.size();
    (void)request_for(attackers_[i].attack, 0);
    open(attackers_[i]);
  }
  thread_ = std::thread([this] { run(); });
}

Attackers::~Attackers() {
  ending_ = true;
  thread_.join();
  for (Attacker& attacker : attackers_) close(attacker);
  SSL_CTX_free(tls_);
}

void Attackers::close(Attacker& attacker) {
  SSL_free(attacker.tls);
  attacker.tls = nullptr;
  if (attacker.socket >= 0) ::close(attacker.socket);
  attacker.socket = -1;
}

void Attackers::open(Attacker& attacker) {
  close(attacker);
  attacker.done = attacker.steps = 0;
  ++attacker.requests;
  attacker.socket = ::socket(AF_INET, SOCK_STREAM, 0);
  // What waits in an attacker's own kernel costs this machine's processors, and a real attacker has others.
  (void)::setsockopt(attacker.socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  if (attacker.attack == "unread") {
    const int small = 1024;
    (void)::setsockopt(attacker.socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)::connect(attacker.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  (void)::fcntl(attacker.socket, F_SETFL, O_NONBLOCK);
  if (tls_ != nullptr) {
    attacker.tls = SSL_new(tls_);
    SSL_set_fd(attacker.tls, attacker.socket);
    SSL_set_connect_state(attacker.tls);
  }
  ++opened_;
}

Attackers::Transfer Attackers::send(Attacker& attacker) {
  const std::string& request = request_for(attacker.attack, attacker.requests);
  const size_t rest = request.size() - attacker.done;
  if (rest == 0) return Transfer::none;
  const char* from = request.data() + attacker.done;
  ssize_t sent = 0;
  if (attacker.tls != nullptr) {
    ERR_clear_error();
    sent = SSL_write(attacker.tls, from, static_cast<int>(rest));
    const int why = sent > 0 ? SSL_ERROR_NONE : SSL_get_error(attacker.tls, static_cast<int>(sent));
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Transfer::none;
  } else {
    sent = ::send(attacker.socket, from, rest, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return Transfer::none;
  }
  if (sent <= 0) return Transfer::ended;
  attacker.done += static_cast<size_t>(sent);
  sent_ += sent;
  return Transfer::some;
}

Attackers::Transfer Attackers::receive(Attacker& attacker) {
  char dropped[4096];
  if (attacker.tls != nullptr && attacker.attack != "unread") {
    ERR_clear_error();
    const int got = SSL_read(attacker.tls, dropped, sizeof dropped);
    const int why = got > 0 ? SSL_ERROR_NONE : SSL_get_error(attacker.tls, got);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Transfer::none;
    return got > 0 ? Transfer::some : Transfer::ended;
  }
  const ssize_t got = ::recv(attacker.socket, dropped, sizeof dropped, attacker.attack == "unread" ? MSG_PEEK : 0);
  if (got < 0 && errno == EAGAIN) return Transfer::none;
  return got > 0 ? Transfer::some : Transfer::ended;
}

// Whether the attacker is through with it, in one way or another.
bool Attackers::has_ended_handshake(Attacker& attacker) {
  constexpr size_t kHelloSteps = 4;  // 40 ms
  ++attacker.steps;
  if (attacker.attack == "hello" && attacker.steps > 1) return attacker.steps >= kHelloSteps;
  ERR_clear_error();
  const int result = SSL_do_handshake(attacker.tls);
  const int why = SSL_get_error(attacker.tls, result);
  return why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
}

// Sends what goes, drops what comes, and begins again when the server has ended it.
void Attackers::step(Attacker& attacker) {
  if (attacker.attack == "handshake" || attacker.attack == "hello") {
    if (has_ended_handshake(attacker)) open(attacker);
    return;
  }
  Transfer sent = send(attacker);
  // One record of TLS is not what a socket takes at once.
  while (attacker.tls != nullptr && sent == Transfer::some) sent = send(attacker);
  if (sent == Transfer::ended || receive(attacker) == Transfer::ended) open(attacker);
}

// Each acts every 10 ms; not all at once, since attackers know nothing of each other.
void Attackers::run() {
  (void)::setpriority(PRIO_PROCESS, 0,
                      19);  // this thread: they would compute elsewhere, not on the server's processors
  constexpr size_t kTurns = 64;
  const auto pause = std::chrono::microseconds(10'000 / kTurns);
  for (size_t turn = 0; !ending_; turn = (turn + 1) % kTurns) {
    for (size_t i = turn; i < attackers_.size(); i += kTurns) step(attackers_[i]);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace exeunt::load
