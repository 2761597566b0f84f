// SPDX-License-Identifier: Apache-2.0
// A loop over independent items on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace exeunt {

// Calls work(i) once for every i in [0, count), on `threads` threads that each take the next item when they are idle
// (0 = one per processor). The first exception stops the loop and is rethrown here.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work);

// Resolves 0 to the number of processors that this thread may use.
[[nodiscard]] int thread_count(int threads) noexcept;

}  // namespace exeunt
