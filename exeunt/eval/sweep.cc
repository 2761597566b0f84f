// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/sweep.h"

#include <cmath>

#include <fmt/format.h>

namespace exeunt {
namespace {

double value_of(const PolicyScore& score, Metric primary) {
  return score.metrics.empty() ? score.agreement : primary_of(score.metrics, primary);
}

// NaN is no JSON; an undefined metric is null there.
OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}
OrderedJson number(const std::optional<double>& value) {
  return value ? number(*value) : OrderedJson(nullptr);
}

// A CSV field, quoted where a comma or quote asks for it.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::vector<SweepRow> sweep(Scorer& scorer, std::span<const PolicySpec> policies, Metric primary) {
  std::vector<SweepRow> rows;
  for (const PolicySpec& policy : policies) rows.push_back({.score = scorer.score(policy)});
  for (SweepRow& row : rows) {
    const double value = value_of(row.score, primary), cost = row.score.cost.average_layers;
    row.on_front = std::isfinite(value);
    for (const SweepRow& other : rows) {
      const double other_value = value_of(other.score, primary), other_cost = other.score.cost.average_layers;
      const bool beaten = (other_value >= value && other_cost < cost) || (other_value > value && other_cost <= cost);
      if (beaten) row.on_front = false;
    }
  }
  return rows;
}

OrderedJson score_json(const PolicyScore& score) {
  OrderedJson out;
  out["policy"] = score.policy;
  for (const Score& metric : score.metrics) out[std::string(name_of(metric.metric))] = number(metric.value);
  out["agreement"] = number(score.agreement);
  out["average_layers"] = number(score.cost.average_layers);
  out["cost_fraction"] = number(score.cost.cost_fraction);
  out["saved_fraction"] = number(score.cost.saved_fraction);
  out["speedup_ratio"] = number(score.cost.speedup_ratio);
  out["mflops"] = number(score.mflops);
  out["mflops_padded"] = number(score.mflops_padded);
  out["exits"] = score.histogram;
  return out;
}

OrderedJson sweep_json(std::span<const SweepRow> rows) {
  OrderedJson out = OrderedJson::array();
  for (const SweepRow& row : rows) {
    out.push_back(score_json(row.score));
    out.back()["pareto"] = row.on_front;
  }
  return out;
}

std::string sweep_csv(std::span<const SweepRow> rows) {
  std::string out = "policy";
  if (!rows.empty()) {
    for (const Score& metric : rows.front().score.metrics) out += fmt::format(",{}", name_of(metric.metric));
  }
  out += ",agreement,average_layers,cost_fraction,saved_fraction,speedup_ratio,mflops,mflops_padded,pareto\n";
  const auto optional_text = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string{};
  };
  for (const SweepRow& row : rows) {
    const PolicyScore& s = row.score;
    out += field(s.policy);
    for (const Score& metric : s.metrics) out += std::isfinite(metric.value) ? fmt::format(",{}", metric.value) : ",";
    out += fmt::format(",{},{},{},{},{},{},{},{}\n", s.agreement, s.cost.average_layers, s.cost.cost_fraction,
                       s.cost.saved_fraction, s.cost.speedup_ratio, optional_text(s.mflops),
                       optional_text(s.mflops_padded), row.on_front ? 1 : 0);
  }
  return out;
}

OrderedJson exit_scores_json(std::span<const ExitScore> exits) {
  OrderedJson out = OrderedJson::array();
  for (const ExitScore& exit : exits) {
    OrderedJson row;
    row["layer"] = exit.layer;
    for (const Score& metric : exit.metrics) row[std::string(name_of(metric.metric))] = number(metric.value);
    row["agreement"] = number(exit.agreement);
    row["calibration_error"] = number(exit.calibration_error);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace exeunt
