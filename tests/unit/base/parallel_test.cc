// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "exeunt/base/version.h"

namespace exeunt {
namespace {

TEST(Parallel, RunsEveryItemOnce) {
  for (const int threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> seen(1000);
    parallel_for(1000, threads, [&](int64_t i) { ++seen[static_cast<size_t>(i)]; });
    for (const auto& count : seen) ASSERT_EQ(count, 1);
  }
  parallel_for(0, 4, [](int64_t) { FAIL(); });
}

TEST(Parallel, ThreadCountFollowsAffinity) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(thread_count(0), CPU_COUNT(&all));
  EXPECT_EQ(thread_count(7), 7);
  std::jthread([&] {
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(thread_count(0), 1);
  });
}

TEST(Parallel, RethrowsFailure) {
  std::atomic<int> done{0};
  EXPECT_THROW(parallel_for(100'000, 2,
                            [&](int64_t i) {
                              if (i == 10) throw std::runtime_error("ten");
                              ++done;
                            }),
               std::runtime_error);
  EXPECT_LT(done, 100'000);
}

TEST(Parallel, BeginsNoItemAfterFailure) {
  int begun = 0;
  EXPECT_THROW(parallel_for(100, 1,
                            [&](int64_t i) {
                              ++begun;
                              if (i == 10) throw std::runtime_error("ten");
                            }),
               std::runtime_error);
  EXPECT_EQ(begun, 11);
}

TEST(Clock, IsRfc3339InUtc) {
  const std::string now = now_rfc3339();
  ASSERT_EQ(now.size(), 20U);
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
}

}  // namespace
}  // namespace exeunt
