// SPDX-License-Identifier: Apache-2.0
// Statistics of a stream of losses in [0, 1] that hold at every moment, however often one looks: a test that the mean
// loss is at most max_drop, and an upper bound on it. Both rest on Ville's inequality: a nonnegative process that is
// not expected to grow exceeds 1 / alpha at any time with probability at most alpha.
#pragma once

#include <array>
#include <cstdint>

namespace exeunt {

// Raises an alarm when losses exceed what was promised. It bets against "the mean is at most max_drop" from every
// moment on, at once: the bets that began at time t get a share w(t) of the level, and the shares of all times add up
// to 1. So a good past, however long, does not hide a change, and the chance of ever raising a false alarm is at
// most `alpha`, without end.
class RiskAlarm {
 public:
  RiskAlarm(double max_drop, double alpha);  // max_drop strictly between 0 and 1

  void record(double loss);  // in [0, 1]

  // True from the first moment at which the evidence reached 1 / alpha.
  [[nodiscard]] bool raised() const noexcept { return raised_; }
  [[nodiscard]] double evidence() const noexcept;  // an e-value: at most 1 in expectation while the promise holds

 private:
  // A bet grows fastest when the true mean is this many times max_drop.
  static constexpr std::array<double, 5> kMultiples = {1.25, 1.5, 2, 3, 5};

  double max_drop_, alpha_;
  int64_t time_ = 0;
  std::array<double, kMultiples.size()> stakes_{}, wealth_{};
  bool raised_ = false;
};

// The mean loss lies below this, at all times together, with probability at least 1 - delta: a confidence sequence from
// the beta-binomial mixture. `sum` is that of `count` losses in [0, 1].
[[nodiscard]] double anytime_upper_bound(double sum, int64_t count, double delta);

}  // namespace exeunt
