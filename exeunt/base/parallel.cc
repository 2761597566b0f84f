// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace exeunt {

int thread_count(int threads) noexcept {
  if (threads > 0) return threads;
#if defined(__linux__)
  // glibc counts those of the machine. A container, taskset or Slurm may leave us a few of them, and threads that wait
  // for each other on one processor answer late.
  cpu_set_t ours;
  if (sched_getaffinity(0, sizeof(ours), &ours) == 0) return std::max(1, CPU_COUNT(&ours));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto loop = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(failing);
        if (!failure) failure = std::current_exception();
        next = count;  // the others finish their item and stop
      }
    }
  };
  const auto extra = static_cast<int>(std::min<int64_t>(thread_count(threads), count)) - 1;
  {
    std::vector<std::jthread> pool;
    for (int i = 0; i < extra; ++i) pool.emplace_back(loop);
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace exeunt
