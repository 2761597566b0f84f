// SPDX-License-Identifier: Apache-2.0
// How the work of a function grows with its input, for readers that must not be worse than linear. Only the ratio of
// two processor times of this thread is compared, so neither the machine's speed nor its load matters.
#pragma once

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

namespace exeunt {

inline double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least processor time of a few runs.
template <class Work>
double least_seconds(const Work& work, int runs = 3) {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < runs; ++i) {
    const double begin = thread_seconds();
    work();
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

// The exponent e of work ~ size^e between the inputs make(size) and make(8 * size): 1 for linear, 2 for quadratic work.
template <class Make, class Read>
double growth_exponent(size_t size, const Make& make, const Read& read) {
  const auto small = make(size), large = make(8 * size);
  const double before = least_seconds([&] { read(small); }), after = least_seconds([&] { read(large); });
  return std::log(after / before) / std::log(8.0);
}

}  // namespace exeunt
