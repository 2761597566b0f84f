// SPDX-License-Identifier: Apache-2.0
// Refused clients wait for their turn, so that those who try again and again take little from the others: a number is
// answered at once, then so many a second. While a client waits, nothing of it is read.
#pragma once

#include <algorithm>
#include <chrono>

namespace exeunt::serve {

class RefusalPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kLongestWait{2000};

  // 0 a second: everyone at once.
  RefusalPace(int per_second, int at_once) noexcept
      : interval_(per_second > 0 ? Time::duration(std::chrono::seconds(1)) / per_second : Time::duration(0)),
        ahead_(std::max(at_once - 1, 0) * interval_) {}

  struct Turn {
    Time at;
    bool answered;  // else the connection ends without a response: too many are waiting
  };
  [[nodiscard]] Turn next(Time now) noexcept {
    const Time free = std::max(free_, now);
    const Time at = std::max(now, free - ahead_);
    if (at > now + kLongestWait) return {now + kLongestWait, false};
    free_ = free + interval_;
    return {at, true};
  }

 private:
  Time::duration interval_, ahead_;
  Time free_ = {};  // when all turns that were given have passed
};

}  // namespace exeunt::serve
