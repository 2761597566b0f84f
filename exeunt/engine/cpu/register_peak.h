// SPDX-License-Identifier: Apache-2.0
// The peak multiplication rate of one core with the instruction that a table of kernels uses, from registers alone.
// Measured on request, in a few milliseconds.
#pragma once

#include <algorithm>
#include <string_view>

#include <time.h>

#include "exeunt/base/error.h"
#include "exeunt/engine/precision.h"

namespace exeunt {

// Operations per second, two per multiply-add; 0 if unknown. The processor must support the table, and its prepare()
// must have been called. One source per architecture.
[[nodiscard]] double register_peak(std::string_view table, Precision precision);

// What part of the peak a product reached. Fails a check() above 1: then it is register_peak() that is too low.
[[nodiscard]] inline double share_of_peak(double operations_per_second, double peak) {
  const double share = operations_per_second / peak;
  check(share <= 1, fmt::format("a product reached {:.1f} % of register_peak(), which is too low", 100 * share));
  return share;
}

// CPU time of this thread, so that other programs do not count.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The minimum of many runs, in seconds: other load can only add.
template <class F>
double least_seconds(F run, int times = 200) {
  double least = 1e9;
  for (int i = 0; i < times; ++i) {
    const double start = thread_seconds();
    run();
    least = std::min(least, thread_seconds() - start);
  }
  return least;
}

}  // namespace exeunt
