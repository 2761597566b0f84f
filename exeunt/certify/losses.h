// SPDX-License-Identifier: Apache-2.0
// What an early answer loses against full depth, row by row: against the trace's reference (fp32) where it has one,
// else against the last exit of the same trace. The head that the trace names answers at the last layer.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "exeunt/certify/risk.h"
#include "exeunt/policy/replay.h"

namespace exeunt {

// The values a loss may take. A mean loss of `max_drop` is a share of at most this.
struct LossRange {
  double low = 0, high = 1;
};
[[nodiscard]] LossRange range_of(RiskLoss loss) noexcept;

// The range of a regression where neither the model nor the user tells it: that of the gold values, else that of the
// values at full depth; nothing without rows.
[[nodiscard]] std::optional<std::pair<double, double>> observed_range(const ExitTrace& trace);

// Losses of whole policies over one trace, which must outlive it.
class LossMeter {
 public:
  // `range` is that of regression labels; needed only for abs_diff. Throws Error (usage) if the loss does not
  // suit the trace: labels for numbers, gold that is not there.
  LossMeter(const ExitTrace& trace, RiskLoss loss, std::optional<std::pair<double, double>> range);

  struct Measured {
    std::vector<double> losses;  // [rows]
    double cost_fraction = 1;    // average layers over all layers
  };
  [[nodiscard]] Measured measure(const PolicySpec& policy);

 private:
  const ExitTrace& trace_;
  Replayer replayer_;
  // [rows, exits, then the last ramp] of each answer, so that a policy only looks them up.
  std::vector<double> losses_;
};

}  // namespace exeunt
