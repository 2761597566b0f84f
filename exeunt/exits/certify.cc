// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/certify.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exeunt/base/error.h"
#include "exeunt/exits/losses.h"
#include "exeunt/exits/risk.h"

namespace exeunt {
namespace {

// Tests speak of losses in [0, 1]; others are moved there and the budget with them.
double to_unit(double value, LossRange range) {
  return (value - range.low) / (range.high - range.low);
}

double from_unit(double value, LossRange range) {
  return range.low + value * (range.high - range.low);
}

double sum_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

std::vector<double> unit_losses(const std::vector<double>& losses, LossRange range) {
  std::vector<double> unit;
  unit.reserve(losses.size());
  for (const double loss : losses) unit.push_back(to_unit(loss, range));
  return unit;
}

double p_value_of(const RiskTest& test, const std::vector<double>& losses) {
  const LossRange range = range_of(test.loss);
  const auto rows = static_cast<int64_t>(losses.size());
  const double epsilon = to_unit(test.epsilon, range);
  switch (test.method) {
    case RiskMethod::ltt_binomial:
      return binomial_p_value(std::llround(sum_of(losses)), rows, epsilon);
    case RiskMethod::ltt_hb:
      return hoeffding_bentkus_p_value(sum_of(unit_losses(losses, range)) / static_cast<double>(rows), rows, epsilon);
    default:
      return wsr_p_value(unit_losses(losses, range), epsilon, test.delta);
  }
}

bool passes(const RiskTest& test, const std::vector<double>& losses) {
  if (test.method == RiskMethod::crc) return upper_bound(test, losses) <= test.epsilon;
  return p_value_of(test, losses) <= test.delta;
}

}  // namespace

double upper_bound(const RiskTest& test, const std::vector<double>& losses) {
  const LossRange range = range_of(test.loss);
  const double rows = static_cast<double>(losses.size());
  if (test.method == RiskMethod::crc) return (sum_of(losses) + range.high) / (rows + 1);
  if (test.method == RiskMethod::ltt_binomial)
    return binomial_upper_bound(std::llround(sum_of(losses)), static_cast<int64_t>(losses.size()), test.delta);
  return from_unit(wsr_upper_bound(unit_losses(losses, range), test.delta), range);
}

SequenceResult certify_sequence(const RiskTest& test, size_t settings,
                                const std::function<std::vector<double>(size_t)>& losses) {
  check(settings > 0, "a sequence begins with full depth");
  std::optional<size_t> chosen;
  std::vector<double> now;
  if (test.method == RiskMethod::crc) {
    chosen = conformal_choice(settings, test.epsilon, range_of(test.loss).high, [&](size_t i) {
      now = losses(i);
      return std::span<const double>(now);
    });
  } else {
    chosen = fixed_sequence(settings, test.delta, [&](size_t i) { return p_value_of(test, losses(i)); });
  }
  SequenceResult verdict;
  verdict.setting = chosen.value_or(0);
  const std::vector<double> final_losses = losses(verdict.setting);
  verdict.losses = sum_of(final_losses);
  verdict.p_value = test.method == RiskMethod::crc ? 0 : p_value_of(test, final_losses);
  verdict.upper_bound = upper_bound(test, final_losses);
  return verdict;
}

bool would_pass(const RiskTest& test, const std::vector<double>& losses, int64_t rows) {
  const LossRange range = range_of(test.loss);
  const double mean = sum_of(losses) / static_cast<double>(losses.size());
  const double sum = mean * static_cast<double>(rows);
  if (test.method == RiskMethod::crc) return (sum + range.high) / (static_cast<double>(rows) + 1) <= test.epsilon;
  if (test.method == RiskMethod::ltt_binomial)
    return binomial_p_value(static_cast<int64_t>(std::ceil(sum)), rows, test.epsilon) <= test.delta;
  // The bounds for other losses see more than their mean: test the same rows over again, as many as there will be.
  std::vector<double> repeated(static_cast<size_t>(rows));
  for (size_t row = 0; row < repeated.size(); ++row) repeated[row] = losses[row % losses.size()];
  return passes(test, repeated);
}

int64_t rows_without_loss(const RiskTest& test) {
  if (test.method == RiskMethod::ltt_binomial) return rows_needed(test.epsilon, test.delta);
  const auto enough = [&](int64_t rows) { return passes(test, std::vector<double>(static_cast<size_t>(rows), 0.0)); };
  int64_t fails = 0, succeeds = 1;
  while (!enough(succeeds)) {
    fails = succeeds;
    succeeds *= 2;
  }
  while (succeeds - fails > 1) {
    const int64_t middle = fails + (succeeds - fails) / 2;
    (enough(middle) ? succeeds : fails) = middle;
  }
  return succeeds;
}

double least_budget(const RiskTest& test, int64_t rows) {
  const std::vector<double> nothing(static_cast<size_t>(rows), 0.0);
  double low = test.epsilon, high = 1;
  for (int i = 0; i < 60; ++i) {
    RiskTest wider = test;
    wider.epsilon = (low + high) / 2;
    (passes(wider, nothing) ? high : low) = wider.epsilon;
  }
  return high;
}

}  // namespace exeunt
