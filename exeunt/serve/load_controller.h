// SPDX-License-Identifier: Apache-2.0
// Under load, exit earlier before refusing requests: steps along a policy's certified points, largest loss last.
#pragma once

#include <algorithm>
#include <chrono>

namespace exeunt::serve {

class LoadController {
 public:
  using Clock = std::chrono::steady_clock;
  // `levels`: the number of points up to the largest loss allowed.
  explicit LoadController(int levels) : levels_(std::max(levels, 1)) {}

  // Called regularly with the queue's fill, from 0 to 1. Returns the point to use, from 0. Steps up quickly (the queue
  // fills in milliseconds) and down slowly, to avoid oscillation.
  int update(Clock::time_point now, double fill) noexcept {
    constexpr auto kUp = std::chrono::milliseconds(50), kDown = std::chrono::milliseconds(2000);
    const bool high = fill >= 0.5, low = fill <= 0.1;
    if (high != was_high_ || low != was_low_) since_ = now;
    was_high_ = high;
    was_low_ = low;
    if (high && level_ + 1 < levels_ && now - since_ >= kUp) {
      ++level_;
      since_ = now;
    } else if (low && level_ > 0 && now - since_ >= kDown) {
      --level_;
      since_ = now;
    }
    return level_;
  }
  [[nodiscard]] int level() const noexcept { return level_; }

 private:
  int levels_, level_ = 0;
  bool was_high_ = false, was_low_ = false;
  Clock::time_point since_ = {};
};

}  // namespace exeunt::serve
