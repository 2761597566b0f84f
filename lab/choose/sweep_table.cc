// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/sweep_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "exeunt/data/rows.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {

std::string csv_of(const OrderedJson& rows) {
  std::string out;
  for (const OrderedJson& row : rows) {
    std::vector<std::string> names, cells;
    for (const auto& [name, value] : row.items()) {
      if (value.is_array()) continue;
      names.push_back(name);
      cells.push_back(value.is_null()      ? ""
                      : value.is_string()  ? csv_field(value.get<std::string>())
                      : value.is_boolean() ? fmt::format("{:d}", value.get<bool>())
                                           : fmt::format("{}", value.get<double>()));
    }
    if (out.empty()) out = fmt::format("{}\n", fmt::join(names, ","));
    out += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return out;
}

double quality_of(const PolicyScore& score, Metric primary) {
  return score.metrics.empty() ? score.agreement : primary_of(score.metrics, primary);
}

std::vector<SweepRow> sweep(Scorer& scorer, std::span<const PolicySpec> policies, Metric primary) {
  std::vector<SweepRow> rows;
  for (const PolicySpec& policy : policies) rows.push_back({.score = scorer.score(policy)});
  for (SweepRow& row : rows) {
    const double value = quality_of(row.score, primary), cost = row.score.cost.average_layers;
    row.on_front = std::isfinite(value);
    for (const SweepRow& other : rows) {
      const double other_value = quality_of(other.score, primary), other_cost = other.score.cost.average_layers;
      const bool beaten = (other_value >= value && other_cost < cost) || (other_value > value && other_cost <= cost);
      if (beaten) row.on_front = false;
    }
  }
  return rows;
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
  return csv_of(sweep_json(rows));
}

std::vector<PolicySpec> default_settings(const ExitTrace& trace) {
  std::vector<PolicySpec> out = parse_sweep("full");
  const auto add = [&](const std::string& text) {
    for (PolicySpec& policy : parse_sweep(text)) out.push_back(std::move(policy));
  };
  const int most = std::max(1, std::min(trace.exits - 1, 10));
  if (trace.info.problem == Problem::regression) {
    for (const char* tolerance : {"0.05", "0.1", "0.2", "0.4"}) add(fmt::format("patience:1|2|3,tol={}", tolerance));
    return out;
  }
  add("nentropy:0.01|0.02|0.05|0.1|0.15|0.2|0.3|0.4|0.5|0.6|0.7|0.8");
  add(fmt::format("patience:1..{}", most));
  return out;
}

}  // namespace exeunt
