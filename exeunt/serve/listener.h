// SPDX-License-Identifier: Apache-2.0
// Sockets: one thread that accepts, reads, hands whole requests to the service and writes its answers. It never
// computes. Slow and silent clients are bounded by time, large ones by size, many ones by number.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exeunt/serve/framing.h"
#include "exeunt/serve/service.h"

namespace exeunt::serve {

struct ListenerOptions {
  std::string hostname = "127.0.0.1";
  uint16_t port = 3000;                            // 0 = any free one
  std::string unix_socket = {};                    // instead of hostname and port
  std::string tls_certificate = {}, tls_key = {};  // PEM files
  std::chrono::milliseconds head_timeout{10'000};  // from a request's first byte to the end of its head
  std::chrono::milliseconds body_timeout{30'000};  // from there to its last byte
  std::chrono::milliseconds idle_timeout{60'000};  // between requests
  std::chrono::milliseconds write_timeout{10'000};
  size_t max_connections = 1024;
  std::chrono::milliseconds drain_delay{0}, drain_timeout{30'000};
  FramingLimits framing = {};
  bool signals = true;  // SIGTERM, SIGINT and SIGHUP are ours
};

// Is it an address that other machines cannot reach? "localhost" is.
[[nodiscard]] bool is_loopback(const std::string& hostname);
[[nodiscard]] bool is_ip_address(const std::string& text);

class Listener {
 public:
  // Binds and listens. Throws Error: usage for an address, resources for a port in use, bad_file for certificates.
  explicit Listener(ListenerOptions options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::string address() const;  // "127.0.0.1:3000", or the socket's path
  [[nodiscard]] uint16_t port() const;
  void post(std::function<void()> work);  // from any thread

  // From here on SIGTERM, SIGINT and SIGHUP are kept for `run`.
  void heed_signals();
  // Serves until told to stop and drained. True if no request was left behind. `reload` is called at SIGHUP, behind
  // the reloading of certificates; what it throws is logged.
  bool run(Service& service, const Log& log, const std::function<void()>& reload);
  void stop();  // drain and return; from any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exeunt::serve
