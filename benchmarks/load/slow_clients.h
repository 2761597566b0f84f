// SPDX-License-Identifier: Apache-2.0
// Clients that take their time: a third drip a head, a third a body, a third ask and never read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace exeunt::load {

class SlowClients {
 public:
  SlowClients(uint16_t port, int sockets);
  ~SlowClients();
  SlowClients(const SlowClients&) = delete;
  SlowClients& operator=(const SlowClients&) = delete;

  // A byte from one in twenty of them: each says something every two seconds, if this is called ten times in one.
  void drip();
  // How often the server ended one, and another took its place.
  [[nodiscard]] int64_t reopened() const noexcept { return reopened_; }

 private:
  void open(size_t nth);

  uint16_t port_;
  std::vector<int> sockets_;
  size_t turn_ = 0;
  int64_t reopened_ = 0;
};

}  // namespace exeunt::load
