// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "exeunt/certify/risk.h"
#include "exeunt/eval/scores.h"

namespace exeunt {
namespace {

constexpr int kDraws = 400;
constexpr double kTwoSided = 1.959963984540054;  // 97.5 % of a normal distribution

// Bootstrap samples of the rows, the same for every caller: `of` gives a value for each.
std::vector<double> drawn(size_t rows, const std::function<double(std::span<const size_t>)>& of) {
  std::mt19937_64 random(42);
  std::vector<size_t> draw(rows);
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) {
    for (size_t& row : draw) row = random() % rows;
    const double value = of(draw);
    if (std::isfinite(value)) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

double value_in(const Judge& judge, const Answers& answers, std::span<const size_t> rows) {
  std::vector<float> predicted, gold;
  predicted.reserve(rows.size());
  gold.reserve(rows.size());
  for (const size_t row : rows) {
    predicted.push_back(answers.predicted[row]);
    gold.push_back(answers.gold[row]);
  }
  return primary_of(score(judge.metrics, predicted, gold), judge.primary);
}

// Of the difference of two accuracies: the share of rows that only the first gets right, less that of the second, each
// within Clopper and Pearson's bounds at half the level. Never empty, even if no row tells them apart.
Bounds paired_bounds(const Answers& first, const Answers& second) {
  constexpr double kLevel = 0.05 / 4;  // two shares, two sides
  const auto rows = static_cast<int64_t>(first.gold.size());
  int64_t only_first = 0, only_second = 0;
  for (size_t row = 0; row < first.gold.size(); ++row) {
    const bool one = first.predicted[row] == first.gold[row], two = second.predicted[row] == second.gold[row];
    only_first += one && !two ? 1 : 0;
    only_second += two && !one ? 1 : 0;
  }
  const auto least = [&](int64_t hits) { return 1 - binomial_upper_bound(rows - hits, rows, kLevel); };
  const auto greatest = [&](int64_t hits) { return binomial_upper_bound(hits, rows, kLevel); };
  return {least(only_first) - greatest(only_second), greatest(only_first) - least(only_second)};
}

// The middle 95 % of sorted values; `absent` if there are none.
Bounds middle(const std::vector<double>& sorted, double absent) {
  if (sorted.empty()) return {absent, absent};
  const auto at = [&](double share) {
    return sorted[static_cast<size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
  };
  return {at(0.025), at(0.975)};
}

}  // namespace

Bounds share_bounds(int64_t hits, int64_t rows) {
  if (rows <= 0) return {0, 1};
  const auto n = static_cast<double>(rows);
  const double share = static_cast<double>(hits) / n, square = kTwoSided * kTwoSided / n;
  const double centre = (share + square / 2) / (1 + square);
  const double half = kTwoSided / (1 + square) * std::sqrt(share * (1 - share) / n + square / (4 * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

double value_of(const Judge& judge, const Answers& answers) {
  return primary_of(score(judge.metrics, answers.predicted, answers.gold), judge.primary);
}

Bounds score_bounds(const Judge& judge, const Answers& answers) {
  if (judge.primary == Metric::accuracy) {
    int64_t hits = 0;
    for (size_t row = 0; row < answers.gold.size(); ++row) hits += answers.predicted[row] == answers.gold[row] ? 1 : 0;
    return share_bounds(hits, static_cast<int64_t>(answers.gold.size()));
  }
  return middle(drawn(answers.gold.size(), [&](auto rows) { return value_in(judge, answers, rows); }),
                value_of(judge, answers));
}

Difference difference_of(const Judge& judge, const Answers& first, const Answers& second) {
  Difference out;
  out.value = value_of(judge, first) - value_of(judge, second);
  const std::vector<double> values =
      drawn(first.gold.size(), [&](auto rows) { return value_in(judge, first, rows) - value_in(judge, second, rows); });
  out.bounds = judge.primary == Metric::accuracy ? paired_bounds(first, second) : middle(values, out.value);
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (values.size() > 1) out.error = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return out;
}

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
