// SPDX-License-Identifier: Apache-2.0
// A policy's scores on a trace: quality by the task's metrics, and cost in layers and FLOPs. The papers call three
// different fractions "saving" or "speed-up"; here each has its own name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/data/features.h"
#include "exeunt/data/metrics.h"
#include "exeunt/policy/policy.h"
#include "exeunt/policy/replay.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Rows as token ids, and what every exit of a model says of them.
struct TracedRows {
  const Features& rows;
  const ExitTrace& trace;
};

// n_l texts exit at layer l of L; N in all.
struct LayerCost {
  double average_layers = 0;  // Σ l n_l / N
  double cost_fraction = 0;   // average / L
  double saved_fraction = 0;  // 1 − average / L
  double speedup_ratio = 0;   // L / average
};

// The cost of one text of `tokens` tokens that exits at exit number `exit` (from 0) after the heads at the layers
// `evaluated`: MFLOPs, or milliseconds.
using CostOf = std::function<double(int exit, int tokens, const std::vector<int>& evaluated)>;

struct PolicyScore {
  std::string policy;          // text form
  std::vector<Score> metrics;  // empty if the trace has no gold
  double agreement = 0;        // share of texts with the answer of ExitTrace::reference_name(); regression: within 1e-6
  LayerCost cost;
  std::optional<double> mflops;                 // mean per text at its true length
  std::optional<double> mflops_padded;          // mean per text padded to the trace's max_length, as the originals run
  std::optional<double> predicted_ms;           // mean per text at its true length, by the model's profile
  std::optional<double> measured_ms = {};       // mean per text by the clock, where the policy was run
  std::optional<double> measured_speedup = {};  // full depth's over this one, run in turns with it
  std::vector<int64_t> histogram;               // [exits of the model] texts that exit there
};

struct ExitScore {
  int layer = 0;
  std::vector<Score> metrics;
  double agreement = 0;
  double calibration_error = 0;     // ECE over 15 bins of confidence; 0 for regression
  std::optional<double> loss = {};  // mean cross entropy, or squared error of a regression; nothing without gold
};

// Whether a metric fell from `full` to `early` by more than `budget` plus the sampling error of `rows` rows, or by
// half. A few changed answers can do that to metrics of rare classes.
[[nodiscard]] bool loses_much(double full, double early, double budget, size_t rows) noexcept;

// Whether a score over `rows` rows is better than another by more than a few rows make by chance.
[[nodiscard]] bool clearly_better(double score, double other, size_t rows) noexcept;

struct ScorerOptions {
  std::vector<Metric> metrics = {};  // empty = default_metrics() of the problem
  CostOf mflops = {};                // empty = no MFLOPs
  CostOf milliseconds = {};          // empty = no times
  LastHead last = LastHead::final;
  int positive = 1;  // the class that f1 is of
};

// Scores many policies over one trace, which must outlive it.
class Scorer {
 public:
  Scorer(const ExitTrace& trace, ScorerOptions options = {});

  [[nodiscard]] PolicyScore score(const PolicySpec& policy);
  [[nodiscard]] PolicyScore score(const PolicySpec& policy, const Departures& departures) const;
  [[nodiscard]] std::vector<ExitScore> each_exit() const;
  // Of the answers that agreement is measured against: ExitTrace::full_depth().
  [[nodiscard]] std::vector<Score> reference_quality() const {
    return quality(full_depth_, [this](size_t row) { return trace_.full_depth(row); });
  }
  // Of a policy's answers. The trace is labelled and of classes; of multi_label, each is reported on its own.
  [[nodiscard]] ClassReport classes(const PolicySpec& policy);
  [[nodiscard]] const std::vector<Metric>& metrics() const noexcept { return options_.metrics; }
  [[nodiscard]] const ExitTrace& trace() const noexcept { return trace_; }

 private:
  using LogitsOf = std::function<std::span<const float>(size_t row)>;
  [[nodiscard]] std::vector<Score> quality(std::span<const float> predicted, const LogitsOf& logits_of) const;
  // multi_label, [rows, labels]: 1 for each label that is given, else 0.
  [[nodiscard]] std::vector<float> sets(const LogitsOf& logits_of) const;
  [[nodiscard]] double agreement_of(std::span<const float> predicted) const noexcept;
  void add_costs(PolicyScore& score, const PolicySpec& policy, const Departures& departures) const;

  const ExitTrace& trace_;
  ScorerOptions options_;
  Replayer replayer_;
  std::vector<float> full_depth_;  // [rows] what ExitTrace::full_depth() answers
  std::vector<int32_t> lengths_;   // distinct lengths, ascending; empty if unknown
  std::vector<size_t> length_of_;  // [rows] index in lengths_
};

[[nodiscard]] LayerCost layer_cost(const std::vector<int64_t>& histogram, const std::vector<int>& layers);

// The value of the metric `primary`, or of the first if it is absent; NaN without metrics.
[[nodiscard]] double primary_of(const std::vector<Score>& scores, Metric primary);

// By their names; null where one is no number.
[[nodiscard]] OrderedJson metrics_json(const std::vector<Score>& metrics);

// Keys of docs/formats.md: policy, metrics by name, average_layers, cost_fraction, saved_fraction, speedup_ratio,
// mflops, predicted_ms, measured_ms, measured_speedup.
[[nodiscard]] OrderedJson score_json(const PolicyScore& score);
[[nodiscard]] OrderedJson exit_scores_json(std::span<const ExitScore> exits);

// {"macro_f1", "micro_f1", "weighted_f1", "classes": {label: {"precision", "recall", "f1", "support"}}, "confusion"}:
// one row of the confusion per gold label, in the order of the classes.
[[nodiscard]] OrderedJson classes_json(const ClassReport& report, const std::vector<std::string>& labels);

}  // namespace exeunt
