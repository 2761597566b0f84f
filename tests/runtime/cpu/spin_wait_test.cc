// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/spin_wait.h"

#include <gtest/gtest.h>

namespace exeunt {
namespace {

using std::chrono::microseconds;
using Next = SpinWait::Next;

// A thread that waits, with times of our choice.
struct Waiting {
  Courtesy courtesy = {};
  Courtesy::Time now{std::chrono::hours(1)};
  SpinWait wait{courtesy, now};

  Next look_after(microseconds passed, bool in_the_way = false) {
    now += passed;
    return wait.look(now, in_the_way);
  }
  // Looks once a microsecond, up to a time-out, until it is told something else than to spin.
  Next spin_for(microseconds longest, bool in_the_way = false) {
    for (const auto end = now + longest; now < end;) {
      if (const Next next = look_after(microseconds(1), in_the_way); next != Next::spin) return next;
    }
    return Next::spin;
  }
  void yield() { wait.yielded(now += microseconds(5)); }
};

TEST(SpinWait, KeepsItsProcessorAndGivesUpInTheEnd) {
  Waiting thread;
  EXPECT_EQ(thread.spin_for(SpinWait::kPatience), Next::spin);
  EXPECT_EQ(thread.look_after(microseconds(1)), Next::give_up);
  thread.wait.restart(thread.now);
  EXPECT_EQ(thread.spin_for(SpinWait::kPatience), Next::spin);
  EXPECT_EQ(thread.look_after(microseconds(1)), Next::give_up);
}

TEST(SpinWait, YieldsForAWhileAfterItWasPreempted) {
  Waiting thread;
  EXPECT_EQ(thread.look_after(SpinWait::kPreempted + microseconds(1)), Next::yield);
  EXPECT_TRUE(thread.courtesy.due(thread.now));
  thread.yield();
  EXPECT_EQ(thread.spin_for(SpinWait::kSpin), Next::spin);  // not at every look
  EXPECT_EQ(thread.look_after(microseconds(1)), Next::yield);

  thread.now += Courtesy::kShortest;
  thread.wait.restart(thread.now);  // it worked meanwhile, which is not waiting
  EXPECT_FALSE(thread.courtesy.due(thread.now));
  EXPECT_EQ(thread.spin_for(SpinWait::kPatience), Next::spin);
}

TEST(SpinWait, TakesNoYieldOfItsOwnForPreemption) {
  Waiting thread;
  thread.wait.yielded(thread.now += SpinWait::kPreempted * 4);
  EXPECT_EQ(thread.look_after(microseconds(1)), Next::spin);
  EXPECT_FALSE(thread.courtesy.due(thread.now));
}

TEST(SpinWait, GetsOutOfTheWayOfTheThreadItWaitsFor) {
  Waiting thread;
  EXPECT_EQ(thread.spin_for(SpinWait::kSpin * 2, true), Next::yield);
  thread.yield();
  EXPECT_EQ(thread.spin_for(SpinWait::kSpin * 2, false), Next::spin);  // one of them moved
}

TEST(Courtesy, LastsLongerWhereOthersPreemptAgainAndAgainUpToALimit) {
  Courtesy courtesy;
  Courtesy::Time now{std::chrono::hours(1)};
  const auto lasts = [&] {
    courtesy.preempted(now);
    const auto begin = now;
    while (courtesy.due(now)) now += std::chrono::milliseconds(1);
    return now - begin;
  };
  auto expected = Courtesy::kShortest;
  for (int times = 0; times < 12; ++times) {
    EXPECT_EQ(lasts(), expected) << times;
    expected = std::min(2 * expected, Courtesy::kLongest);
  }
  now += Courtesy::kForgotten;
  EXPECT_EQ(lasts(), Courtesy::kShortest);
}

}  // namespace
}  // namespace exeunt
