// SPDX-License-Identifier: Apache-2.0
// What a thread does with its processor while it waits for another one of its crew, which should take microseconds.
//
// It keeps it. A thread that yields or sleeps leaves it to anybody who wants it, of whatever priority, for a whole time
// slice, which is milliseconds: one process of the lowest priority then costs a text its second thread. There are two
// exceptions. A thread that was preempted while it only waited has a processor that others have a claim to, so it
// yields now and then for a while. And one on the very processor of the thread it waits for is in its way.
#pragma once

#include <algorithm>
#include <chrono>

namespace exeunt {

// How long others have had a claim to a thread's processor. Processes of low priority rarely preempt; where it happens
// again and again, the thread yields for longer and longer.
class Courtesy {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kShortest{10}, kLongest{1000}, kForgotten{40};

  [[nodiscard]] bool due(Time now) const noexcept { return now < until_; }
  void preempted(Time now) noexcept {
    const bool again = now - until_ < kForgotten;
    period_ = again ? std::min(2 * period_, kLongest) : kShortest;
    until_ = now + period_;
  }

 private:
  Time until_ = {};
  std::chrono::milliseconds period_ = kShortest;
};

class SpinWait {
 public:
  using Time = Courtesy::Time;
  // Between two yields; sleeping and waking up cost several times that.
  static constexpr std::chrono::microseconds kSpin{20};
  // Two looks are a microsecond apart, unless something else ran in between.
  static constexpr std::chrono::microseconds kPreempted{500};
  // Longer than a phase of a text on one thread.
  static constexpr std::chrono::milliseconds kPatience{10};

  SpinWait(Courtesy& courtesy, Time now) noexcept : courtesy_(courtesy) { restart(now); }

  enum class Next : uint8_t { spin, yield, give_up };
  // What to do after a look at `now` that found nothing; `in_the_way`: on the processor of the other thread.
  [[nodiscard]] Next look(Time now, bool in_the_way) noexcept {
    if (now - looked_ > kPreempted) courtesy_.preempted(now);
    looked_ = now;
    if (now - began_ > kPatience) return Next::give_up;
    return (in_the_way || courtesy_.due(now)) && now - rested_ > kSpin ? Next::yield : Next::spin;
  }
  void restart(Time now) noexcept { began_ = rested_ = looked_ = now; }
  void yielded(Time now) noexcept { rested_ = looked_ = now; }

 private:
  Courtesy& courtesy_;
  Time began_ = {}, rested_ = {}, looked_ = {};
};

}  // namespace exeunt
