// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/crew.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/cpu/share.h"

namespace exeunt {
namespace {

using std::chrono::milliseconds;

// Runs `task` on a crew and waits for its end.
void run_on(Crew& crew, const Crew::Task& task) {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  crew.push([&](Crew::Member& member) {
    task(member);
    const std::scoped_lock lock(mutex);
    done = true;
    finished.notify_all();
  });
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return done; });
}

// Waits until another thread helps; false after a while. Awake all the time, as a helper soon goes back to sleep.
bool wait_for_hands(Crew::Member& member, int hands) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < milliseconds(60000)) {
    member.summon();
    for (int i = 0; i < 1000; ++i) {
      if (member.hands() >= hands) return true;
    }
  }
  return false;
}

TEST(Crew, RunsEveryTaskOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> runs(200);
    {
      Crew crew({.threads = threads, .processors = 2, .help = true});
      for (auto& run : runs) crew.push([&run](Crew::Member&) { ++run; });
    }  // the end of a crew runs what waits
    for (const auto& run : runs) EXPECT_EQ(run, 1) << threads;
  }
}

TEST(Crew, SharesEveryPartOnceAndComesBackWhenAllAreDone) {
  for (const int threads : {1, 2, 4}) {
    Crew crew({.threads = threads, .processors = threads, .help = true});
    run_on(crew, [&](Crew::Member& member) {
      std::vector<int> done(37);  // plain: a part that ran twice or was still running would be a race
      for (int round = 1; round <= 300; ++round) {
        member.summon();
        member.share(37, [&](int part, int who) {
          EXPECT_TRUE(who >= 0 && who < threads);
          ++done[static_cast<size_t>(part)];
        });
        for (const int count : done) ASSERT_EQ(count, round);
      }
    });
  }
}

TEST(Crew, AnIdleThreadHelpsATextThatRunsAlone) {
  Crew crew({.threads = 2, .processors = 2, .help = true});
  run_on(crew, [&](Crew::Member& member) {
    // One part waits until the other has begun: they meet only if two threads are at it.
    std::atomic<int> begun{0}, met{0};
    for (int attempt = 0; attempt < 1000 && met == 0; ++attempt) {
      begun = 0;
      ASSERT_TRUE(wait_for_hands(member, 2));
      member.share(2, [&](int, int) {
        ++begun;
        const auto start = std::chrono::steady_clock::now();
        while (begun < 2 && std::chrono::steady_clock::now() - start < milliseconds(20)) std::this_thread::yield();
        if (begun == 2) ++met;
      });
    }
    EXPECT_GT(met, 0);
  });
}

// Waits until nobody helps any more; false after a while.
bool wait_until_alone(const Crew::Member& member) {
  for (int i = 0; i < 60'000 && member.hands() > 1; ++i) std::this_thread::sleep_for(milliseconds(1));
  return member.hands() == 1;
}

// Waits until the other of two threads sleeps; false after a while. It must have come before: one that has only just
// begun helps without being called.
bool wait_until_asleep(Crew::Member& member) {
  return wait_for_hands(member, 2) && wait_until_alone(member);
}

// A round of a long text begins while the other threads sleep, and outlasts the patience of those that find nothing.
TEST(Crew, AThreadThatWakesUpDuringARoundTakesPartsOfIt) {
  Crew crew({.threads = 2, .processors = 2, .help = true});
  run_on(crew, [&](Crew::Member& member) {
    ASSERT_TRUE(wait_until_asleep(member));
    std::atomic<bool> helped{false};
    member.share(2, [&](int, int who) {
      if (who != member.index()) helped = true;
      for (int i = 0; i < 60'000 && !helped; ++i) {
        member.summon();
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_TRUE(helped);
  });
}

TEST(Crew, LongWorkIsCutForThreadsThatMayStillCome) {
  Crew crew({.threads = 3, .processors = 8, .help = true});
  run_on(crew, [&](Crew::Member& member) {
    EXPECT_EQ(member.most_hands(), 3);
    EXPECT_EQ(wanted_parts(member, kWorthSharing - 1), 1);
    EXPECT_EQ(wanted_parts(member, kLongWork), 3 * kPartsPerHand);
    EXPECT_EQ(wanted_parts(member, 20 * kLongestPart), 20);
  });
  for (const CrewOptions& alone : {CrewOptions{.threads = 1, .processors = 8, .help = true},
                                   CrewOptions{.threads = 3, .processors = 8, .help = false}}) {
    Crew one(alone);
    run_on(one, [&](Crew::Member& member) { EXPECT_EQ(wanted_parts(member, 20 * kLongestPart), 1); });
  }
}

TEST(Crew, LongWorkCallsThreadsThatSleep) {
  Crew crew({.threads = 2, .processors = 2, .help = true});
  run_on(crew, [&](Crew::Member& member) {
    ASSERT_TRUE(wait_until_asleep(member));
    std::atomic<bool> helped{false};
    member.share(2, [&](int, int who) {
      if (who != member.index()) helped = true;
      for (int i = 0; i < 60'000 && !helped; ++i) {
        EXPECT_EQ(wanted_parts(member, kLongWork), 2 * kPartsPerHand);
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_TRUE(helped);
  });
}

TEST(Crew, NobodyHelpsWhereItIsSwitchedOffOrProcessorsAreShort) {
  for (const CrewOptions& options : {CrewOptions{.threads = 3, .processors = 3, .help = false},
                                     CrewOptions{.threads = 3, .processors = 1, .help = true}}) {
    Crew crew(options);
    run_on(crew, [&](Crew::Member& member) {
      for (int i = 0; i < 50; ++i) {
        member.summon();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        EXPECT_EQ(member.hands(), 1);
      }
      member.share(8, [&](int, int who) { EXPECT_EQ(who, member.index()); });
    });
  }
}

TEST(Crew, AHelperLeavesForATaskOfItsOwn) {
  Crew crew({.threads = 2, .processors = 2, .help = true});
  std::atomic<bool> second{false};
  run_on(crew, [&](Crew::Member& member) {
    member.summon();  // the other thread helps now, or soon sleeps again
    crew.push([&](Crew::Member& other) {
      EXPECT_NE(other.index(), member.index());
      second = true;
    });
    for (int i = 0; i < 60'000 && !second; ++i) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(second);
  });
}

TEST(Crew, CountsWhatWaits) {
  Crew crew({.threads = 1, .processors = 1, .help = true});
  run_on(crew, [&](Crew::Member&) {
    EXPECT_EQ(crew.waiting(), 0U);
    crew.push([](Crew::Member&) {});
    crew.push([](Crew::Member&) {});
    EXPECT_EQ(crew.waiting(), 2U);
  });
}

// However long a task goes on without parts, its helpers do not wait for ever; and however often they have gone to
// sleep, they come when they are summoned.
TEST(Crew, HelpersSleepWhereThereIsNothingToDoAndComeBack) {
  for (const int threads : {2, 5}) {
    Crew crew({.threads = threads, .processors = 2, .help = true});
    run_on(crew, [&](Crew::Member& member) {
      for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(wait_for_hands(member, 2)) << threads << ' ' << round;
        ASSERT_TRUE(wait_until_alone(member)) << threads << ' ' << round;
      }
    });
  }
}

// Tasks come and go, and summon one another's threads: none is lost and every part runs once, with more threads than
// processors and more of both than this machine may have.
TEST(Crew, NoTaskAndNoPartIsLostWhileThreadsComeAndGo) {
  for (const int processors : {2, 16}) {
    constexpr int tasks = 200, parts = 7;
    std::atomic<int> done{0};
    {
      Crew crew({.threads = 8, .processors = processors, .help = true});
      const auto task = [&](Crew::Member& member) {
        std::vector<int> runs(parts);  // plain: a part that ran twice at a time would be a race
        for (int round = 1; round <= 5; ++round) {
          member.summon();
          member.share(parts, [&](int part, int) { ++runs[static_cast<size_t>(part)]; });
          for (const int count : runs) EXPECT_EQ(count, round);
        }
        ++done;
      };
      for (int n = 0; n < tasks; ++n) {
        crew.push(task);
        if (n % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));  // some find everybody asleep
      }
    }
    EXPECT_EQ(done, tasks) << processors;
  }
}

// More threads than processors: spinning ones would keep those with work from running.
TEST(Crew, NoMoreThreadsHelpThanThereAreProcessorsFor) {
  Crew crew({.threads = 8, .processors = 2, .help = true});
  run_on(crew, [&](Crew::Member& member) {
    ASSERT_TRUE(wait_for_hands(member, 2));
    for (int round = 0; round < 1000; ++round) {
      member.summon();
      ASSERT_LE(member.hands(), 2);
      std::atomic<int> at_work{0}, most{0};
      member.share(6, [&](int, int) {
        const int now = ++at_work;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
        --at_work;
      });
      ASSERT_LE(most, 2);
    }
  });
}

}  // namespace
}  // namespace exeunt
