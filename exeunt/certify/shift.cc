// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/shift.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exeunt/certify/risk.h"

namespace exeunt {

std::vector<int64_t> full_depth_answers(const ExitTrace& trace) {
  if (trace.info.problem != Problem::classification) return {};  // sets are too many to count
  std::vector<int64_t> counts(static_cast<size_t>(trace.width), 0);
  for (size_t row = 0; row < trace.rows; ++row)
    ++counts[static_cast<size_t>(best_label(trace.info, trace.full_depth(row)))];
  return counts;
}

std::optional<Shift> shift_between(std::span<const int64_t> there, std::span<const int64_t> here) {
  if (there.empty() || there.size() != here.size()) return std::nullopt;
  const auto total_of = [](std::span<const int64_t> counts) {
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  };
  const double one = total_of(there), two = total_of(here);
  if (one == 0 || two == 0) return std::nullopt;
  constexpr double kLeastExpected = 5;  // of the smaller side: below it the statistic is no chi-square
  const double smaller = std::min(one, two) / (one + two);
  double rare_there = 0, rare_here = 0, statistic = 0, largest = 0;
  int cells = 0;
  const auto add = [&](double a, double b) {
    const double expected_a = (a + b) * one / (one + two), expected_b = (a + b) * two / (one + two);
    statistic += (a - expected_a) * (a - expected_a) / expected_a + (b - expected_b) * (b - expected_b) / expected_b;
    ++cells;
  };
  Shift shift;
  for (size_t i = 0; i < there.size(); ++i) {
    const auto a = static_cast<double>(there[i]), b = static_cast<double>(here[i]);
    if (std::fabs(a / one - b / two) > largest) {
      largest = std::fabs(a / one - b / two);
      shift.most = i;
      shift.there = a / one;
      shift.here = b / two;
    }
    if ((a + b) * smaller >= kLeastExpected) {
      add(a, b);
    } else {
      rare_there += a;
      rare_here += b;
    }
  }
  if ((rare_there + rare_here) * smaller >= kLeastExpected) add(rare_there, rare_here);
  if (cells < 2) return std::nullopt;
  shift.p_value = chi_square_tail(statistic, cells - 1);
  return shift;
}

}  // namespace exeunt
