// SPDX-License-Identifier: Apache-2.0
// Many settings over one trace, the best of them, and the same as CSV and JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/scores.h"

namespace exeunt {

struct SweepRow {
  PolicyScore score;
  bool on_front = false;  // no other row is at least as good and cheaper, or better and as cheap
};

// Rows in the order of `policies`; the front is taken over average layers and the metric `primary` (agreement where
// the trace has no gold).
[[nodiscard]] std::vector<SweepRow> sweep(Scorer& scorer, std::span<const PolicySpec> policies, Metric primary);

// Keys of docs/formats.md: policy, metrics by name, average_layers, cost_fraction, saved_fraction, speedup_ratio,
// mflops.
[[nodiscard]] OrderedJson score_json(const PolicyScore& score);
[[nodiscard]] OrderedJson sweep_json(std::span<const SweepRow> rows);
[[nodiscard]] std::string sweep_csv(std::span<const SweepRow> rows);

[[nodiscard]] OrderedJson exit_scores_json(std::span<const ExitScore> exits);

}  // namespace exeunt
