// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/certify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "exeunt/base/error.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"

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
  const double max_drop = to_unit(test.max_drop, range);
  switch (test.method) {
    case RiskMethod::ltt_binomial:
      return binomial_p_value(std::llround(sum_of(losses)), rows, max_drop);
    case RiskMethod::ltt_hb:
      return hoeffding_bentkus_p_value(sum_of(unit_losses(losses, range)) / static_cast<double>(rows), rows, max_drop);
    default:
      return wsr_p_value(unit_losses(losses, range), max_drop, test.delta);
  }
}

// A test over requests is one over texts with these losses in place of l: w (l - max_drop) / most + max_drop. Their
// mean is at most max_drop if and only if that of all requests' losses is, and they lie in the same range.
std::vector<double> counted(const RiskTest& test, std::vector<double> losses, const Weights& weights) {
  if (weights.of.empty()) return losses;
  const LossRange range = range_of(test.loss);
  for (size_t row = 0; row < losses.size(); ++row) {
    const double weight = std::min(weights.of[row % weights.of.size()], weights.most);
    losses[row] =
        std::clamp(weight * (losses[row] - test.max_drop) / weights.most + test.max_drop, range.low, range.high);
  }
  return losses;
}

std::vector<double> picked(const std::vector<double>& losses, const std::vector<size_t>& rows) {
  std::vector<double> part;
  part.reserve(rows.size());
  for (const size_t row : rows) part.push_back(losses[row]);
  return part;
}

bool passes(const RiskTest& test, const std::vector<double>& losses) {
  if (losses.empty()) return false;
  if (test.method == RiskMethod::crc) {
    const double most = range_of(test.loss).high;
    return (sum_of(losses) + most) / (static_cast<double>(losses.size()) + 1) <= test.max_drop;
  }
  return p_value_of(test, losses) <= test.delta;
}

// As many rows as there will be, by taking those there are over again. The bounds for losses other than 0 and 1 see
// more of them than their mean.
std::vector<double> repeated(const std::vector<double>& losses, int64_t rows) {
  std::vector<double> out(static_cast<size_t>(rows));
  for (size_t row = 0; row < out.size(); ++row) out[row] = losses[row % losses.size()];
  return out;
}

bool would_pass_alone(const RiskTest& test, const std::vector<double>& losses, int64_t rows) {
  if (losses.empty() || rows == 0) return false;
  const LossRange range = range_of(test.loss);
  const double sum = sum_of(losses) / static_cast<double>(losses.size()) * static_cast<double>(rows);
  if (test.method == RiskMethod::crc) return (sum + range.high) / (static_cast<double>(rows) + 1) <= test.max_drop;
  if (test.method == RiskMethod::ltt_binomial)
    return binomial_p_value(static_cast<int64_t>(std::ceil(sum)), rows, test.max_drop) <= test.delta;
  return passes(test, repeated(losses, rows));
}

SequenceResult walk(const RiskTest& test, size_t settings, const std::function<std::vector<double>(size_t)>& losses) {
  SequenceResult result;
  if (test.method == RiskMethod::crc) {
    std::vector<double> now;
    result.setting = conformal_choice(settings, test.max_drop, range_of(test.loss).high, [&](size_t i) {
      now = losses(i);
      return std::span<const double>(now);
    });
  } else {
    result.setting = fixed_sequence(settings, test.delta, [&](size_t i) {
      const double p = p_value_of(test, losses(i));
      if (p <= test.delta) result.p_value = p;
      return p;
    });
  }
  return result;
}

}  // namespace

SequenceResult certify_sequence(const RiskTest& test, size_t settings,
                                const std::function<std::vector<double>(size_t)>& losses, const Sample& sample) {
  check(settings > 0, "a sequence begins with full depth");
  const auto all = [&](size_t i) { return counted(test, losses(i), sample.weights); };
  SequenceResult result = walk(test, settings, all);
  // A group walks no further than the others did: a setting must pass in all, and so must every one before it.
  for (const std::vector<size_t>& rows : sample.groups) {
    if (!result.setting || rows.empty()) return {};
    const SequenceResult part = walk(test, *result.setting + 1, [&](size_t i) { return picked(all(i), rows); });
    // Where the group ends the walk earlier, the others passed there, too: their p-values were below delta.
    result.p_value = part.setting == result.setting ? std::max(result.p_value, part.p_value) : part.p_value;
    result.setting = part.setting;
  }
  return result;
}

bool would_pass(const RiskTest& test, const std::vector<double>& losses, int64_t rows, const Sample& sample) {
  const std::vector<double> all = counted(test, losses, sample.weights);
  const double scale = static_cast<double>(rows) / static_cast<double>(losses.size());
  return would_pass_alone(test, all, rows) &&
         std::all_of(sample.groups.begin(), sample.groups.end(), [&](const std::vector<size_t>& group) {
           const auto group_rows = static_cast<int64_t>(scale * static_cast<double>(group.size()));
           return would_pass_alone(test, picked(all, group), group_rows);
         });
}

int64_t rows_without_loss(const RiskTest& test, const Weights& weights) {
  if (test.method == RiskMethod::ltt_binomial) return rows_needed(test.max_drop, test.delta);
  const auto enough = [&](int64_t rows) {
    return passes(test, counted(test, std::vector<double>(static_cast<size_t>(rows), 0.0), weights));
  };
  constexpr int64_t kMost = int64_t{1} << 26;
  int64_t fails = 0, succeeds = 1;
  while (!enough(succeeds) && succeeds < kMost) {
    fails = succeeds;
    succeeds *= 2;
  }
  while (succeeds - fails > 1) {
    const int64_t middle = fails + (succeeds - fails) / 2;
    (enough(middle) ? succeeds : fails) = middle;
  }
  return succeeds;
}

double least_max_drop(const RiskTest& test, int64_t rows, const Weights& weights) {
  const std::vector<double> nothing(static_cast<size_t>(rows), 0.0);
  double low = test.max_drop, high = 1;
  for (int i = 0; i < 60; ++i) {
    RiskTest wider = test;
    wider.max_drop = (low + high) / 2;
    (passes(wider, counted(wider, nothing, weights)) ? high : low) = wider.max_drop;
  }
  return high;
}

LossInterval loss_interval(RiskLoss loss, const std::vector<double>& losses, double delta) {
  const LossRange range = range_of(loss);
  if (losses.empty()) return {range.low, range.high};
  if (loss == RiskLoss::disagreement) {
    const auto rows = static_cast<int64_t>(losses.size());
    const int64_t lost = std::llround(sum_of(losses));
    // The least share is what the greatest share of the others leaves.
    return {1 - binomial_upper_bound(rows - lost, rows, delta / 2), binomial_upper_bound(lost, rows, delta / 2)};
  }
  std::vector<double> unit = unit_losses(losses, range);
  const double high = from_unit(wsr_upper_bound(unit, delta / 2), range);
  for (double& one : unit) one = 1 - one;
  return {from_unit(1 - wsr_upper_bound(unit, delta / 2), range), high};
}

}  // namespace exeunt
