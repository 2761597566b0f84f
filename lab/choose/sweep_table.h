// SPDX-License-Identifier: Apache-2.0
// Many settings scored on one trace, with their Pareto front, as rows, CSV and JSON.
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

// Rows in the order of `policies`; the front is taken over average layers and the metric `primary` (agreement if
// the trace has no gold).
[[nodiscard]] std::vector<SweepRow> sweep(Scorer& scorer, std::span<const PolicySpec> policies, Metric primary);

// A row's quality: the metric `primary`, or agreement with full depth if the trace has no gold.
[[nodiscard]] double quality_of(const PolicyScore& score, Metric primary);

[[nodiscard]] OrderedJson sweep_json(std::span<const SweepRow> rows);
[[nodiscard]] std::string sweep_csv(std::span<const SweepRow> rows);

// The rows of a table in JSON as CSV, without the lists in them.
[[nodiscard]] std::string csv_of(const OrderedJson& rows);

// Settings for a curve: the rules that suit the trace, from cautious to aggressive.
[[nodiscard]] std::vector<PolicySpec> default_settings(const ExitTrace& trace);

}  // namespace exeunt
