// SPDX-License-Identifier: Apache-2.0
// What a policy is worth on a trace: quality by the task's metrics, and cost in layers and FLOPs. Three fractions go by
// the name of "saving" or "speed-up" in the papers; here each has a name of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/exits/policy.h"
#include "exeunt/exits/replay.h"
#include "exeunt/exits/trace.h"
#include "exeunt/tasks/metrics.h"

namespace exeunt {

// n_l texts leave at layer l of L; N in all.
struct LayerCost {
  double average_layers = 0;  // Σ l n_l / N
  double cost_fraction = 0;   // average / L    (DeeBERT's code prints this as "Expected saving", ELBERT's as cost)
  double saved_fraction = 0;  // 1 − average / L (DeeBERT's paper: expected saving; PABEE's code: "Speed Up")
  double speedup_ratio = 0;   // L / average    (ElasticBERT's "Speed Up" and most papers)
};

// What one text of `tokens` tokens costs that leaves at the exit number `exit` (from 0), `evaluated` exits (layers)
// being asked on the way: MFLOPs, or milliseconds.
using CostOf = std::function<double(int exit, int tokens, const std::vector<int>& evaluated)>;

struct PolicyScore {
  std::string policy;          // text form
  std::vector<Score> metrics;  // empty where the trace has no gold
  double agreement = 0;        // share of texts answered as the last exit answers; regression: within 1e-6
  LayerCost cost;
  std::optional<double> mflops;         // mean per text at its true length
  std::optional<double> mflops_padded;  // mean per text padded to the trace's max_length, as the originals run
  std::optional<double> predicted_ms;   // mean per text at its true length, by the model's profile
  std::vector<int64_t> histogram;       // [exits of the model] texts that leave there
};

struct ExitScore {
  int layer = 0;
  std::vector<Score> metrics;
  double agreement = 0;
  double calibration_error = 0;  // ECE over 15 bins of confidence; 0 for a regression
};

// Whether a metric fell from `full` to `early` by more than `budget` and what chance makes of `rows` rows, or to half
// of itself. Few changed answers can do that to metrics of rare classes.
[[nodiscard]] bool loses_much(double full, double early, double budget, size_t rows) noexcept;

struct ScorerOptions {
  std::vector<Metric> metrics = {};  // empty = default_metrics() of the problem
  CostOf mflops = {};                // empty = no MFLOPs
  CostOf milliseconds = {};          // empty = no times
  LastHead last = LastHead::final;
};

// Scores many policies over one trace, which must outlive it.
class Scorer {
 public:
  Scorer(const ExitTrace& trace, ScorerOptions options = {});

  [[nodiscard]] PolicyScore score(const PolicySpec& policy);
  [[nodiscard]] PolicyScore score(const PolicySpec& policy, const Departures& departures) const;
  [[nodiscard]] std::vector<ExitScore> each_exit() const;
  [[nodiscard]] const std::vector<Metric>& metrics() const noexcept { return options_.metrics; }
  [[nodiscard]] const ExitTrace& trace() const noexcept { return trace_; }

 private:
  [[nodiscard]] float answer_of(std::span<const float> logits) const noexcept;
  [[nodiscard]] std::vector<Score> quality(std::span<const float> predicted) const;
  [[nodiscard]] double agreement_of(std::span<const float> predicted) const noexcept;
  void add_costs(PolicyScore& score, const PolicySpec& policy, const Departures& departures) const;

  const ExitTrace& trace_;
  ScorerOptions options_;
  Replayer replayer_;
  std::vector<float> full_depth_;  // [rows] what the last exit answers
  std::vector<int32_t> lengths_;   // those that occur, rising; empty where they are not known
  std::vector<size_t> length_of_;  // [rows] place in lengths_
};

[[nodiscard]] LayerCost layer_cost(const std::vector<int64_t>& histogram, const std::vector<int>& layers);

// The value of the metric `primary`, or of the first where it is not among them; NaN of none.
[[nodiscard]] double primary_of(const std::vector<Score>& scores, Metric primary);

}  // namespace exeunt
