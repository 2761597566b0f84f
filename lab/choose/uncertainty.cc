// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

}  // namespace exeunt
