// SPDX-License-Identifier: Apache-2.0
// Work that must not slow anybody down.
#pragma once

#include <exception>
#include <thread>

#include <sys/resource.h>

namespace exeunt::serve {

// The calling thread, and every thread that it starts from now on, gives way to all others.
inline void lower_priority() noexcept {
  (void)::setpriority(PRIO_PROCESS, 0, 19);  // on Linux, 0 is this thread alone
}

// Runs `work` on a thread of its own with low priority, which the threads that it starts inherit, and waits for it.
// Throws what it throws.
template <class Work>
void run_at_low_priority(const Work& work) {
  std::exception_ptr failure;
  std::thread([&] {
    lower_priority();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace exeunt::serve
