// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "exeunt/base/error.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

// Expected calibration error: Σ over bins of (share of texts in the bin) · |accuracy − mean confidence|.
class CalibrationBins {
 public:
  void add(float confidence, bool right) noexcept {
    const auto bin = std::min<size_t>(kBins - 1, static_cast<size_t>(confidence * kBins));
    ++count_[bin];
    confidence_[bin] += confidence;
    right_[bin] += right ? 1 : 0;
  }
  [[nodiscard]] double error(size_t rows) const noexcept {
    double sum = 0;
    for (size_t bin = 0; bin < kBins; ++bin) sum += std::fabs(right_[bin] - confidence_[bin]);
    return rows == 0 ? 0 : sum / static_cast<double>(rows);
  }

 private:
  static constexpr size_t kBins = 15;
  std::array<int64_t, kBins> count_{};
  std::array<double, kBins> confidence_{}, right_{};
};

// The layers whose exits a policy evaluates, including the one that answers.
std::vector<int> evaluated_layers(const PolicySpec& spec, const ExitSites& sites) {
  const Policy policy = bind(spec, sites);
  std::vector<int> layers;
  for (int i = 0; i < policy.count; ++i) layers.push_back(sites.layers[static_cast<size_t>(policy.site[i])]);
  return layers;
}

double cross_entropy(std::span<const float> logits, float gold) {
  const double peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  return std::log(sum) - (logits[static_cast<size_t>(gold)] - peak);
}

// Mean over the labels of the cross entropy of yes and no, as PyTorch's BCEWithLogitsLoss.
double set_loss(std::span<const float> logits, std::span<const float> gold) {
  double sum = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    const double z = logits[c];
    sum += std::max(z, 0.0) - z * gold[c] + std::log1p(std::exp(-std::fabs(z)));
  }
  return sum / static_cast<double>(logits.size());
}

// Of logits for a row with gold.
double loss_of(const ExitTrace& trace, size_t row, std::span<const float> logits) {
  const std::span<const float> gold = std::span(trace.gold).subspan(row * trace.gold_width(), trace.gold_width());
  switch (trace.info.problem) {
    case Problem::classification:
      return cross_entropy(logits, gold[0]);
    case Problem::multi_label:
      return set_loss(logits, gold);
    case Problem::regression:
      return (logits[0] - gold[0]) * (logits[0] - gold[0]);
  }
  return 0;
}

}  // namespace

// Where every text leaves before the first layer: that exit's work, about, in layers.
constexpr double kExit0Layers = 0.02;

LayerCost layer_cost(const std::vector<int64_t>& histogram, const std::vector<int>& layers) {
  int64_t rows = 0;
  double run = 0;
  for (size_t exit = 0; exit < histogram.size(); ++exit) {
    rows += histogram[exit];
    run += static_cast<double>(histogram[exit]) * layers[exit];
  }
  LayerCost cost;
  if (rows == 0) return cost;
  const double all = layers.back();
  cost.average_layers = run / static_cast<double>(rows);
  cost.cost_fraction = cost.average_layers / all;
  cost.saved_fraction = 1 - cost.cost_fraction;
  cost.speedup_ratio = all / std::max(cost.average_layers, kExit0Layers);
  return cost;
}

bool loses_much(double full, double early, double budget, size_t rows) noexcept {
  constexpr double kSomething = 0.05;  // a metric below has nothing to lose
  if (!std::isfinite(full)) return false;
  if (!std::isfinite(early)) return full > kSomething;
  if (full > kSomething && early <= full / 2) return true;
  return full - early > budget + 2.0 / static_cast<double>(rows);
}

bool clearly_better(double score, double other, size_t rows) noexcept {
  constexpr double kPoints = 0.005, kRows = 3;
  return score - other >= std::max(kPoints, kRows / static_cast<double>(std::max<size_t>(1, rows)));
}

double primary_of(const std::vector<Score>& scores, Metric primary) {
  for (const Score& score : scores) {
    if (score.metric == primary) return score.value;
  }
  return scores.empty() ? std::numeric_limits<double>::quiet_NaN() : scores.front().value;
}

Scorer::Scorer(const ExitTrace& trace, ScorerOptions options)
    : trace_(trace), options_(std::move(options)), replayer_(trace, options_.last) {
  if (options_.metrics.empty() || trace.info.problem == Problem::multi_label)
    options_.metrics = default_metrics(trace.info.problem, trace.info.labels.size());
  full_depth_.reserve(trace.rows);
  for (size_t row = 0; row < trace.rows; ++row) full_depth_.push_back(answer_of(trace.info, trace.full_depth(row)));
  lengths_ = trace.lengths;
  std::sort(lengths_.begin(), lengths_.end());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
  for (const int32_t length : trace.lengths) {
    const auto place = std::lower_bound(lengths_.begin(), lengths_.end(), length) - lengths_.begin();
    length_of_.push_back(static_cast<size_t>(place));
  }
}

std::vector<Score> Scorer::quality(std::span<const float> predicted, const LogitsOf& logits_of) const {
  if (!trace_.labelled()) return {};
  switch (trace_.info.problem) {
    case Problem::classification:
    case Problem::regression:
      return exeunt::score(options_.metrics, predicted, trace_.gold, options_.positive);
    case Problem::multi_label:
      return score_sets(options_.metrics, sets(logits_of), trace_.gold, static_cast<size_t>(trace_.width));
  }
  return {};
}

std::vector<float> Scorer::sets(const LogitsOf& logits_of) const {
  std::vector<float> out;
  for (size_t row = 0; row < trace_.rows; ++row) {
    const ExitLogits reading = trace_.exit_logits(logits_of(row));
    for (int c = 0; c < trace_.width; ++c) out.push_back(has_label(reading, c) ? 1.0F : 0.0F);
  }
  return out;
}

double Scorer::agreement_of(std::span<const float> predicted) const noexcept {
  size_t same = 0;
  for (size_t row = 0; row < predicted.size(); ++row)
    same += std::fabs(predicted[row] - full_depth_[row]) <= 1e-6F ? 1 : 0;
  return predicted.empty() ? 0 : static_cast<double>(same) / static_cast<double>(predicted.size());
}

PolicyScore Scorer::score(const PolicySpec& policy) {
  return score(policy, replayer_.run(policy));
}

PolicyScore Scorer::score(const PolicySpec& policy, const Departures& departures) const {
  PolicyScore out;
  out.policy = str(policy);
  out.histogram.assign(static_cast<size_t>(trace_.exits), 0);
  std::vector<float> predicted;
  predicted.reserve(trace_.rows);
  for (size_t row = 0; row < trace_.rows; ++row) {
    ++out.histogram[departures.exit[row]];
    predicted.push_back(answer_of(trace_.info, replayer_.answer(departures, row)));
  }
  out.metrics = quality(predicted, [&](size_t row) { return replayer_.answer(departures, row); });
  out.agreement = agreement_of(predicted);
  out.cost = layer_cost(out.histogram, trace_.info.layers);
  if (!trace_.lengths.empty() && trace_.rows > 0) add_costs(out, policy, departures);
  return out;
}

ClassReport Scorer::classes(const PolicySpec& policy) {
  check(trace_.labelled() && trace_.info.problem != Problem::regression, "classes have labels");
  const Departures departures = replayer_.run(policy);
  if (trace_.info.problem == Problem::multi_label) {
    return set_report(sets([&](size_t row) { return replayer_.answer(departures, row); }), trace_.gold,
                      static_cast<size_t>(trace_.width));
  }
  std::vector<float> predicted;
  for (size_t row = 0; row < trace_.rows; ++row)
    predicted.push_back(answer_of(trace_.info, replayer_.answer(departures, row)));
  return class_report(predicted, trace_.gold, trace_.info.labels.size());
}

// Texts of one length that exit at one exit cost the same, so each such cost is computed once, not per row.
void Scorer::add_costs(PolicyScore& score, const PolicySpec& policy, const Departures& departures) const {
  if (!options_.mflops && !options_.milliseconds) return;
  const std::vector<int> evaluated = evaluated_layers(policy, trace_.sites());
  std::vector<int64_t> count(static_cast<size_t>(trace_.exits) * lengths_.size());
  for (size_t row = 0; row < trace_.rows; ++row) ++count[departures.exit[row] * lengths_.size() + length_of_[row]];

  double mflops = 0, padded = 0, milliseconds = 0;
  for (int exit = 0; exit < trace_.exits; ++exit) {
    const auto left = static_cast<double>(score.histogram[static_cast<size_t>(exit)]);
    if (options_.mflops && left > 0 && trace_.info.max_length > 0)
      padded += left * options_.mflops(exit, trace_.info.max_length, evaluated);
    for (size_t i = 0; i < lengths_.size() && left > 0; ++i) {
      const auto texts = static_cast<double>(count[static_cast<size_t>(exit) * lengths_.size() + i]);
      if (texts == 0) continue;
      if (options_.mflops) mflops += texts * options_.mflops(exit, lengths_[i], evaluated);
      if (options_.milliseconds) milliseconds += texts * options_.milliseconds(exit, lengths_[i], evaluated);
    }
  }
  const auto rows = static_cast<double>(trace_.rows);
  if (options_.mflops) score.mflops = mflops / rows;
  if (options_.mflops && trace_.info.max_length > 0) score.mflops_padded = padded / rows;
  if (options_.milliseconds) score.predicted_ms = milliseconds / rows;
}

std::vector<ExitScore> Scorer::each_exit() const {
  std::vector<ExitScore> out;
  std::vector<float> predicted(trace_.rows);
  const bool classes = trace_.info.problem != Problem::regression, labelled = trace_.labelled();
  for (int exit = 0; exit < trace_.exits; ++exit) {
    CalibrationBins bins;
    double loss = 0;
    for (size_t row = 0; row < trace_.rows; ++row) {
      const auto logits = trace_.at(row, exit);
      predicted[row] = answer_of(trace_.info, logits);
      if (labelled) loss += loss_of(trace_, row, logits);
      if (classes && labelled) {
        const Evidence evidence = compute_evidence(trace_.exit_logits(logits));
        bins.add(evidence.confidence, trace_.right(row, logits));
      }
    }
    out.push_back({.layer = trace_.info.layers[static_cast<size_t>(exit)],
                   .metrics = quality(predicted, [&](size_t row) { return trace_.at(row, exit); }),
                   .agreement = agreement_of(predicted),
                   .calibration_error = classes && labelled ? bins.error(trace_.rows) : 0});
    if (labelled && trace_.rows > 0) out.back().loss = loss / static_cast<double>(trace_.rows);
  }
  return out;
}

namespace {

// JSON has no NaN; an undefined metric is null.
OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}
OrderedJson finite_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : OrderedJson(nullptr);
}

}  // namespace

OrderedJson metrics_json(const std::vector<Score>& metrics) {
  OrderedJson out = OrderedJson::object();
  for (const Score& metric : metrics) out[std::string(name_of(metric.metric))] = finite_or_null(metric.value);
  return out;
}

OrderedJson score_json(const PolicyScore& score) {
  OrderedJson out{{"policy", score.policy}};
  out.update(metrics_json(score.metrics));
  out["agreement"] = finite_or_null(score.agreement);
  out["average_layers"] = finite_or_null(score.cost.average_layers);
  out["cost_fraction"] = finite_or_null(score.cost.cost_fraction);
  out["saved_fraction"] = finite_or_null(score.cost.saved_fraction);
  out["speedup_ratio"] = finite_or_null(score.cost.speedup_ratio);
  out["mflops"] = finite_or_null(score.mflops);
  out["mflops_padded"] = finite_or_null(score.mflops_padded);
  out["predicted_ms"] = finite_or_null(score.predicted_ms);
  out["measured_ms"] = finite_or_null(score.measured_ms);
  out["measured_speedup"] = finite_or_null(score.measured_speedup);
  out["exits"] = score.histogram;
  return out;
}

OrderedJson exit_scores_json(std::span<const ExitScore> exits) {
  OrderedJson out = OrderedJson::array();
  for (const ExitScore& exit : exits) {
    OrderedJson row{{"layer", exit.layer}};
    row.update(metrics_json(exit.metrics));
    row["agreement"] = finite_or_null(exit.agreement);
    row["calibration_error"] = finite_or_null(exit.calibration_error);
    row["loss"] = finite_or_null(exit.loss);
    out.push_back(std::move(row));
  }
  return out;
}

OrderedJson classes_json(const ClassReport& report, const std::vector<std::string>& labels) {
  OrderedJson out{{"macro_f1", report.macro_f1}, {"micro_f1", report.micro_f1}, {"weighted_f1", report.weighted_f1}};
  OrderedJson classes = OrderedJson::object(), confusion = OrderedJson::array();
  for (size_t gold = 0; gold < labels.size(); ++gold) {
    const ClassFigures& figures = report.classes.at(gold);
    classes[labels[gold]] = {
        {"precision", figures.precision}, {"recall", figures.recall}, {"f1", figures.f1}, {"support", figures.support}};
    OrderedJson row = OrderedJson::array();
    for (size_t answer = 0; answer < labels.size(); ++answer) row.push_back(report.at(gold, answer));
    confusion.push_back(std::move(row));
  }
  out["classes"] = std::move(classes);
  if (!report.confusion.empty()) out["confusion"] = std::move(confusion);
  return out;
}

}  // namespace exeunt
