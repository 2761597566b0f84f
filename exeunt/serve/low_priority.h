// SPDX-License-Identifier: Apache-2.0
// Work that must not slow anybody down.
#pragma once

#include <exception>
#include <thread>

#include <sys/resource.h>

namespace exeunt::serve {

// Runs `work` on a thread of its own that gives way to all others, and so do the threads that it starts. Waits for it,
// and throws what it throws.
template <class Work>
void run_at_low_priority(const Work& work) {
  std::exception_ptr failure;
  std::thread([&] {
    (void)::setpriority(PRIO_PROCESS, 0, 19);  // on Linux, 0 is this thread alone
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace exeunt::serve
