// SPDX-License-Identifier: Apache-2.0
// Malicious clients without a key: each repeats one kind of attack. All run on one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace exeunt::load {

inline constexpr std::array<std::string_view, 9> kAttacks = {"objects",  // a body of 260,000 empty objects
                                                             "body",     // 2 MiB and never the last byte
                                                             "public",   // the same, to each route that needs no key
                                                             "chunks",   // 2 MiB in chunks
                                                             "unread",   // many requests, no answer is read
                                                             "head",     // a header that never ends
                                                             "idle",     // a connection and nothing else
                                                             "origin",   // as a page of another site
                                                             "host"};    // under a name of the attacker's own
// Inside TLS alone.
inline constexpr std::array<std::string_view, 2> kTlsAttacks = {"handshake",  // one after the other
                                                                "hello"};     // its first message, then leaves

[[nodiscard]] std::string body_of_objects();  // of the first

class Attackers {
 public:
  // The sockets play `attacks` in turn; with `tls`, inside TLS.
  Attackers(uint16_t port, int sockets, std::vector<std::string_view> attacks, bool tls = false);
  ~Attackers();
  Attackers(const Attackers&) = delete;
  Attackers& operator=(const Attackers&) = delete;

  [[nodiscard]] int64_t opened() const noexcept { return opened_; }
  [[nodiscard]] int64_t bytes_sent() const noexcept { return sent_; }

 private:
  struct Attacker {
    std::string_view attack = {};
    int socket = -1;
    ssl_st* tls = nullptr;
    size_t done = 0;                 // bytes of its request
    size_t requests = 0, steps = 0;  // of this attacker, and since it connected
  };
  enum class Transfer { some, none, ended };  // what went, or came
  void run();
  void open(Attacker& attacker);
  void close(Attacker& attacker);
  void step(Attacker& attacker);
  bool has_ended_handshake(Attacker& attacker);
  Transfer send(Attacker& attacker);
  static Transfer receive(Attacker& attacker);

  uint16_t port_;
  ssl_ctx_st* tls_ = nullptr;
  std::vector<Attacker> attackers_;
  std::atomic<int64_t> opened_ = 0, sent_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace exeunt::load
