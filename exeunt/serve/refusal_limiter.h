// SPDX-License-Identifier: Apache-2.0
// Rate limit of refusals (a token bucket), so that clients who are refused and try again take little from the others.
// While a client waits for its slot, nothing is read from it.
#pragma once

#include <algorithm>
#include <chrono>

namespace exeunt::serve {

class RefusalLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kMaxWait{2000};

  // 0 per second: no limit.
  RefusalLimiter(int per_second, int burst) noexcept
      : interval_(per_second > 0 ? Time::duration(std::chrono::seconds(1)) / per_second : Time::duration(0)),
        ahead_(std::max(burst - 1, 0) * interval_) {}

  struct Slot {
    Time at;
    bool answered;  // else the connection ends without a response: too many are waiting
  };
  [[nodiscard]] Slot next(Time now) noexcept {
    const Time free = std::max(free_, now);
    const Time at = std::max(now, free - ahead_);
    if (at > now + kMaxWait) return {now + kMaxWait, false};
    free_ = free + interval_;
    return {at, true};
  }

 private:
  Time::duration interval_, ahead_;
  Time free_ = {};  // when all slots that were given have passed
};

}  // namespace exeunt::serve
