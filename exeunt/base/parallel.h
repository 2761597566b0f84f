// SPDX-License-Identifier: Apache-2.0
// A loop over independent items on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace exeunt {

// Calls work(i) once for every i in [0, count), on `threads` threads that each take the next item when they are free
// (0 = as many as the machine has). The first exception ends the loop and is thrown again here.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work);

// How many threads `threads` stands for.
[[nodiscard]] int thread_count(int threads) noexcept;

}  // namespace exeunt
