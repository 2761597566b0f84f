// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/cpu/parallel_product.h"

namespace exeunt {
namespace {

using std::chrono::milliseconds;

// Runs `task` on a pool and waits for its end.
void run_on(WorkerPool& pool, const WorkerPool::Task& task) {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  pool.push([&](WorkerPool::Worker& worker) {
    task(worker);
    const std::scoped_lock lock(mutex);
    done = true;
    finished.notify_all();
  });
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return done; });
}

// Waits until another thread helps; false after a while. Awake all the time, as a helper soon goes back to sleep.
bool wait_for_workers(WorkerPool::Worker& worker, int workers) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < milliseconds(60000)) {
    worker.wake_helpers();
    for (int i = 0; i < 1000; ++i) {
      if (worker.workers() >= workers) return true;
    }
  }
  return false;
}

TEST(WorkerPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> runs(200);
    {
      WorkerPool pool({.threads = threads, .processors = 2, .help = true});
      for (auto& run : runs) pool.push([&run](WorkerPool::Worker&) { ++run; });
    }  // the end of a pool runs what waits
    for (const auto& run : runs) EXPECT_EQ(run, 1) << threads;
  }
}

TEST(WorkerPool, ParallelForRunsEveryPartOnceBeforeReturning) {
  for (const int threads : {1, 2, 4}) {
    WorkerPool pool({.threads = threads, .processors = threads, .help = true});
    run_on(pool, [&](WorkerPool::Worker& worker) {
      std::vector<int> done(37);  // plain: a part that ran twice or was still running would be a race
      for (int round = 1; round <= 300; ++round) {
        worker.wake_helpers();
        worker.parallel_for(37, [&](int part, int who) {
          EXPECT_TRUE(who >= 0 && who < threads);
          ++done[static_cast<size_t>(part)];
        });
        for (const int count : done) ASSERT_EQ(count, round);
      }
    });
  }
}

TEST(WorkerPool, IdleWorkerHelpsRunningTask) {
  WorkerPool pool({.threads = 2, .processors = 2, .help = true});
  run_on(pool, [&](WorkerPool::Worker& worker) {
    // One part waits until the other has begun: they meet only if two threads are at it.
    std::atomic<int> begun{0}, met{0};
    for (int attempt = 0; attempt < 1000 && met == 0; ++attempt) {
      begun = 0;
      ASSERT_TRUE(wait_for_workers(worker, 2));
      worker.parallel_for(2, [&](int, int) {
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
bool wait_until_alone(const WorkerPool::Worker& worker) {
  for (int i = 0; i < 60'000 && worker.workers() > 1; ++i) std::this_thread::sleep_for(milliseconds(1));
  return worker.workers() == 1;
}

// Waits until the other of two threads sleeps; false after a while. It must have come before: one that has only just
// begun helps without being woken.
bool wait_until_asleep(WorkerPool::Worker& worker) {
  return wait_for_workers(worker, 2) && wait_until_alone(worker);
}

// A round of a long text begins while the other threads sleep, and outlasts the time-out of helpers that find nothing.
TEST(WorkerPool, WorkerWokenDuringParallelForTakesParts) {
  WorkerPool pool({.threads = 2, .processors = 2, .help = true});
  run_on(pool, [&](WorkerPool::Worker& worker) {
    ASSERT_TRUE(wait_until_asleep(worker));
    std::atomic<bool> helped{false};
    worker.parallel_for(2, [&](int, int who) {
      if (who != worker.index()) helped = true;
      for (int i = 0; i < 60'000 && !helped; ++i) {
        worker.wake_helpers();
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_TRUE(helped);
  });
}

TEST(WorkerPool, LongWorkIsSplitForSleepingWorkers) {
  WorkerPool pool({.threads = 3, .processors = 8, .help = true});
  run_on(pool, [&](WorkerPool::Worker& worker) {
    EXPECT_EQ(worker.max_workers(), 3);
    EXPECT_EQ(wanted_parts(worker, kMinParallelWork - 1), 1);
    EXPECT_EQ(wanted_parts(worker, kLongWork), 3 * kPartsPerWorker);
    EXPECT_EQ(wanted_parts(worker, 20 * kMaxPartWork), 20);
  });
  for (const WorkerPoolOptions& alone : {WorkerPoolOptions{.threads = 1, .processors = 8, .help = true},
                                         WorkerPoolOptions{.threads = 3, .processors = 8, .help = false}}) {
    WorkerPool one(alone);
    run_on(one, [&](WorkerPool::Worker& worker) { EXPECT_EQ(wanted_parts(worker, 20 * kMaxPartWork), 1); });
  }
}

TEST(WorkerPool, LongWorkWakesSleepingWorkers) {
  WorkerPool pool({.threads = 2, .processors = 2, .help = true});
  run_on(pool, [&](WorkerPool::Worker& worker) {
    ASSERT_TRUE(wait_until_asleep(worker));
    std::atomic<bool> helped{false};
    worker.parallel_for(2, [&](int, int who) {
      if (who != worker.index()) helped = true;
      for (int i = 0; i < 60'000 && !helped; ++i) {
        EXPECT_EQ(wanted_parts(worker, kLongWork), 2 * kPartsPerWorker);
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_TRUE(helped);
  });
}

TEST(WorkerPool, NoHelpWhenDisabledOrWithoutFreeProcessors) {
  for (const WorkerPoolOptions& options : {WorkerPoolOptions{.threads = 3, .processors = 3, .help = false},
                                           WorkerPoolOptions{.threads = 3, .processors = 1, .help = true}}) {
    WorkerPool pool(options);
    run_on(pool, [&](WorkerPool::Worker& worker) {
      for (int i = 0; i < 50; ++i) {
        worker.wake_helpers();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        EXPECT_EQ(worker.workers(), 1);
      }
      worker.parallel_for(8, [&](int, int who) { EXPECT_EQ(who, worker.index()); });
    });
  }
}

TEST(WorkerPool, HelperTakesQueuedTask) {
  WorkerPool pool({.threads = 2, .processors = 2, .help = true});
  std::atomic<bool> second{false};
  run_on(pool, [&](WorkerPool::Worker& worker) {
    worker.wake_helpers();  // the other thread helps now, or soon sleeps again
    pool.push([&](WorkerPool::Worker& other) {
      EXPECT_NE(other.index(), worker.index());
      second = true;
    });
    for (int i = 0; i < 60'000 && !second; ++i) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(second);
  });
}

TEST(WorkerPool, CountsQueuedTasks) {
  WorkerPool pool({.threads = 1, .processors = 1, .help = true});
  run_on(pool, [&](WorkerPool::Worker&) {
    EXPECT_EQ(pool.waiting(), 0U);
    pool.push([](WorkerPool::Worker&) {});
    pool.push([](WorkerPool::Worker&) {});
    EXPECT_EQ(pool.waiting(), 2U);
  });
}

// However long a task goes on without parts, its helpers do not wait for ever; and however often they have gone to
// sleep, they come when they are woken.
TEST(WorkerPool, HelpersSleepWhenIdleAndWakeAgain) {
  for (const int threads : {2, 5}) {
    WorkerPool pool({.threads = threads, .processors = 2, .help = true});
    run_on(pool, [&](WorkerPool::Worker& worker) {
      for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(wait_for_workers(worker, 2)) << threads << ' ' << round;
        ASSERT_TRUE(wait_until_alone(worker)) << threads << ' ' << round;
      }
    });
  }
}

// Tasks come and go, and wake one another's threads: none is lost and every part runs once, with more threads than
// processors and more of both than this machine may have.
TEST(WorkerPool, RunsAllTasksAndPartsWhileWorkersSleepAndWake) {
  for (const int processors : {2, 16}) {
    constexpr int tasks = 200, parts = 7;
    std::atomic<int> done{0};
    {
      WorkerPool pool({.threads = 8, .processors = processors, .help = true});
      const auto task = [&](WorkerPool::Worker& worker) {
        std::vector<int> runs(parts);  // plain: a part that ran twice at a time would be a race
        for (int round = 1; round <= 5; ++round) {
          worker.wake_helpers();
          worker.parallel_for(parts, [&](int part, int) { ++runs[static_cast<size_t>(part)]; });
          for (const int count : runs) EXPECT_EQ(count, round);
        }
        ++done;
      };
      for (int n = 0; n < tasks; ++n) {
        pool.push(task);
        if (n % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));  // some find everybody asleep
      }
    }
    EXPECT_EQ(done, tasks) << processors;
  }
}

// More threads than processors: spinning ones would keep those with work from running.
TEST(WorkerPool, HelpersDoNotExceedProcessors) {
  WorkerPool pool({.threads = 8, .processors = 2, .help = true});
  run_on(pool, [&](WorkerPool::Worker& worker) {
    ASSERT_TRUE(wait_for_workers(worker, 2));
    for (int round = 0; round < 1000; ++round) {
      worker.wake_helpers();
      ASSERT_LE(worker.workers(), 2);
      std::atomic<int> at_work{0}, most{0};
      worker.parallel_for(6, [&](int, int) {
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
