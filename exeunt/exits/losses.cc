// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/losses.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

std::ptrdiff_t label_of(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace

LossRange range_of(Loss loss) noexcept {
  return loss == Loss::zero_one_drop ? LossRange{-1, 1} : LossRange{0, 1};
}

LossMeter::LossMeter(const ExitTrace& trace, Loss loss, std::optional<std::pair<double, double>> range)
    : trace_(trace), loss_(loss), replayer_(trace) {
  const bool numbers = loss == Loss::abs_diff;
  if (numbers != trace.info.regression) {
    throw Error(Code::usage,
                fmt::format("loss '{}' does not suit {}", name_of(loss),
                            trace.info.regression ? "a model that predicts numbers" : "a model that predicts classes"),
                trace.info.regression ? "use abs_diff" : "use disagreement or zero_one_drop");
  }
  if (loss == Loss::zero_one_drop && !trace.labelled())
    throw Error(Code::usage, "loss 'zero_one_drop' needs the gold label of every row", "use disagreement");
  if (!numbers) return;
  if (!range || !(range->second > range->first) || !std::isfinite(range->second - range->first))
    throw Error(Code::usage, "loss 'abs_diff' needs the range of the labels", "give it as --range LOW,HIGH");
  width_ = range->second - range->first;
}

double LossMeter::loss_of(size_t row, std::span<const float> answer) const noexcept {
  const std::span<const float> full = trace_.at(row, trace_.exits - 1);
  if (loss_ == Loss::abs_diff)
    return std::min(1.0, std::abs(static_cast<double>(answer[0]) - static_cast<double>(full[0])) / width_);
  if (loss_ == Loss::disagreement) return label_of(answer) == label_of(full) ? 0 : 1;
  const auto gold = static_cast<std::ptrdiff_t>(trace_.gold[row]);
  return (label_of(answer) == gold ? 0 : 1) - (label_of(full) == gold ? 0 : 1);
}

LossMeter::Measured LossMeter::measure(const PolicySpec& policy) {
  const Departures departures = replayer_.run(policy);
  Measured measured;
  measured.losses.reserve(trace_.rows);
  double layers = 0;
  for (size_t row = 0; row < trace_.rows; ++row) {
    measured.losses.push_back(loss_of(row, replayer_.answer(departures, row)));
    layers += trace_.info.layers[departures.exit[row]];
  }
  measured.cost_fraction = layers / static_cast<double>(trace_.rows) / trace_.info.layers.back();
  return measured;
}

}  // namespace exeunt
