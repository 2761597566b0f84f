// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/losses.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// The loss of an answer to a row; `width` is the width of the regression range.
double loss_of(const ExitTrace& trace, size_t row, std::span<const float> answer, RiskLoss loss, double width) {
  const std::span<const float> full = trace.full_depth(row);
  if (loss != RiskLoss::zero_one_drop) return answer_loss(trace.info, answer, full, width);
  return (trace.right(row, answer) ? 0 : 1) - (trace.right(row, full) ? 0 : 1);
}

}  // namespace

LossRange range_of(RiskLoss loss) noexcept {
  return loss == RiskLoss::zero_one_drop ? LossRange{-1, 1} : LossRange{0, 1};
}

std::optional<std::pair<double, double>> observed_range(const ExitTrace& trace) {
  std::optional<std::pair<double, double>> range;
  const auto include = [&](double value) {
    if (std::isnan(value)) return;
    range = range ? std::pair(std::min(range->first, value), std::max(range->second, value)) : std::pair(value, value);
  };
  for (const double gold : trace.gold) include(gold);
  if (range) return range;
  for (size_t row = 0; row < trace.rows; ++row) include(trace.full_depth(row)[0]);
  return range;
}

LossMeter::LossMeter(const ExitTrace& trace, RiskLoss loss, std::optional<std::pair<double, double>> range)
    : trace_(trace), replayer_(trace, trace.info.last_head) {
  const bool numbers = trace.info.problem == Problem::regression;
  if (numbers != (loss == RiskLoss::abs_diff)) {
    throw Error(Code::usage,
                fmt::format("loss '{}' does not suit {}", name_of(loss),
                            numbers ? "a model that predicts numbers" : "a model that predicts classes"),
                numbers ? "use abs_diff" : "use disagreement or zero_one_drop");
  }
  if (loss == RiskLoss::zero_one_drop && !trace.labelled())
    throw Error(Code::usage, "loss 'zero_one_drop' needs the gold label of every row", "use disagreement");
  if (numbers && (!range || !(range->second > range->first) || !std::isfinite(range->second - range->first)))
    throw Error(Code::usage, "loss 'abs_diff' needs the range of the values, which is not empty",
                "name it, as in --range 0,5");
  const double width = numbers ? range->second - range->first : 1;
  const auto outputs = static_cast<size_t>(trace.width);
  losses_.reserve(trace.rows * (static_cast<size_t>(trace.exits) + 1));
  for (size_t row = 0; row < trace.rows; ++row) {
    for (int exit = 0; exit < trace.exits; ++exit)
      losses_.push_back(loss_of(trace, row, trace.at(row, exit), loss, width));
    const std::span<const float> ramp = std::span(trace.ramp).subspan(trace.ramp.empty() ? 0 : row * outputs);
    losses_.push_back(ramp.empty() ? 0 : loss_of(trace, row, ramp.first(outputs), loss, width));
  }
}

LossMeter::Measured LossMeter::measure(const PolicySpec& policy) {
  const Departures departures = replayer_.run(policy);
  const auto exits = static_cast<size_t>(trace_.exits);
  const auto by_ramp = [&](size_t row) { return !departures.by_ramp.empty() && departures.by_ramp[row]; };
  Measured measured;
  measured.losses.reserve(trace_.rows);
  double layers = 0;
  for (size_t row = 0; row < trace_.rows; ++row) {
    measured.losses.push_back(losses_[row * (exits + 1) + (by_ramp(row) ? exits : departures.exit[row])]);
    layers += trace_.info.layers[departures.exit[row]];
  }
  measured.cost_fraction = layers / static_cast<double>(trace_.rows) / trace_.info.layers.back();
  return measured;
}

}  // namespace exeunt
