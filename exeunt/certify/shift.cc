// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/shift.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exeunt/certify/risk.h"

namespace exeunt {
namespace {

// P(X >= lost) where `drawn` of `rows` rows are drawn, of which `all_lost` are lost: Fisher's exact test.
double hypergeometric_tail(size_t lost, size_t drawn, size_t all_lost, size_t rows) {
  const auto log_choose = [](size_t n, size_t k) {
    return std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
           std::lgamma(static_cast<double>(n - k) + 1);
  };
  double sum = 0;
  for (size_t k = lost; k <= std::min(drawn, all_lost); ++k) {
    if (drawn - k > rows - all_lost) continue;
    sum += std::exp(log_choose(all_lost, k) + log_choose(rows - all_lost, drawn - k) - log_choose(rows, drawn));
  }
  return std::min(sum, 1.0);
}

}  // namespace

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

std::optional<LateLoss> late_loss(const std::vector<bool>& lost, double level) {
  constexpr size_t kFewest = 20;
  const auto all_lost = static_cast<size_t>(std::count(lost.begin(), lost.end(), true));
  int cuts = 0;
  for (size_t rows = lost.size() / 2; rows >= kFewest; rows /= 2) ++cuts;
  double least = level / std::max(cuts, 1);
  std::optional<LateLoss> found;
  for (size_t rows = lost.size() / 2; rows >= kFewest; rows /= 2) {
    const auto late = static_cast<size_t>(std::count(lost.end() - static_cast<ptrdiff_t>(rows), lost.end(), true));
    const double p_value = hypergeometric_tail(late, rows, all_lost, lost.size());
    if (p_value > least) continue;
    least = p_value;
    const auto share = [](size_t part, size_t of) { return static_cast<double>(part) / static_cast<double>(of); };
    found = LateLoss{.rows = rows, .before = share(all_lost - late, lost.size() - rows), .after = share(late, rows)};
  }
  return found;
}

}  // namespace exeunt
