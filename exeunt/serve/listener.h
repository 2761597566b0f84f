// SPDX-License-Identifier: Apache-2.0
// Sockets: one thread accepts, reads, passes complete requests to the service and writes its responses. No inference
// runs on it. Time-outs, size limits and a connection limit bound what clients can hold.
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
  std::chrono::milliseconds head_timeout{10'000};  // from a request's first byte to the end of its header
  std::chrono::milliseconds body_timeout{30'000};  // from there to its last byte
  std::chrono::milliseconds idle_timeout{60'000};  // between requests
  std::chrono::milliseconds write_timeout{10'000};
  std::chrono::milliseconds linger_time{1'000};       // for a refused client to stop sending, and read why
  int refusal_burst = 20, refusals_per_second = 200;  // see RefusalLimiter
  size_t max_connections = 1024;
  std::chrono::milliseconds drain_delay{0}, drain_timeout{30'000};
  std::chrono::milliseconds idle_grace{250};  // for requests in transit on idle connections
  FramingLimits framing = {};
  bool signals = true;  // handle SIGTERM, SIGINT and SIGHUP
};

// How many connections a process with this limit of open files can hold, and the limit to ask for.
struct DescriptorPlan {
  size_t connections = 0;
  uint64_t limit = 0;
};
[[nodiscard]] DescriptorPlan plan_descriptors(size_t connections, uint64_t limit, uint64_t highest) noexcept;

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

  // From now on SIGTERM, SIGINT and SIGHUP are handled by `run`.
  void install_signal_handlers();
  // Serves until stopped and drained. True if every request was answered. On SIGHUP certificates are reloaded, then
  // `reload` is called; what it throws is logged.
  bool run(Service& service, const Log& log, const std::function<void()>& reload);
  void stop();  // drain and return; from any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exeunt::serve
