// SPDX-License-Identifier: Apache-2.0
// Health of the engine: after 30 s without a client's answer a canary text runs through it; two in a row without an
// answer mean unhealthy. Used by the network thread alone.
#pragma once

#include <algorithm>
#include <optional>

#include "exeunt/serve/service_context.h"

namespace exeunt::serve {

class Canary {
 public:
  Canary(ServiceContext& context, Clock::time_point now);

  [[nodiscard]] bool healthy() const noexcept { return failures_ < 2; }
  void on_answer(Clock::time_point now) noexcept {
    last_answer_ = now;
    failures_ = 0;
  }
  // The engine ran out of memory or lost its device: the next canary runs at once, to see whether it has recovered.
  void on_failure(Clock::time_point now) noexcept {
    failures_ = std::max(failures_, 1);
    next_ = std::min(next_, now);
  }
  [[nodiscard]] Clock::time_point wake_at() const noexcept;
  void wake(Clock::time_point now);

 private:
  void run(Clock::time_point now);

  ServiceContext& context_;
  Clock::time_point last_answer_, next_;
  std::optional<Clock::time_point> since_ = {};  // start of the one running
  uint64_t round_ = 0;
  int failures_ = 0;
};

}  // namespace exeunt::serve
