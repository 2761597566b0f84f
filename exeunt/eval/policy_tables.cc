// SPDX-License-Identifier: Apache-2.0
// Policies replayed over the grid's traces: score at mean layers, and a threshold chosen on held-out rows.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/eval/table_kinds.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 3> kCurveRules{"entropy", "patience", "window"};
constexpr double kHeldOutLoss = 0.5;  // points that a threshold may lose on held-out rows

std::string rule_before_colon(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

// The entropy that leaves earliest and scores at least `least`; none if no such one does.
const StoredCurve::Point* earliest(const std::vector<StoredCurve::Point>& curve, double least) {
  const StoredCurve::Point* best = nullptr;
  for (const StoredCurve::Point& point : curve) {
    if (rule_before_colon(point.policy) != "entropy" || point.score < least) continue;
    if (best == nullptr || std::pair(point.layers, point.policy) < std::pair(best->layers, best->policy)) best = &point;
  }
  return best;
}

ResultTable curve_table(const StoredResults& results, std::string_view task, std::string_view rule) {
  ResultTable table{.title = fmt::format("{}, {}", task, rule), .header = {"recipe", "score at mean layers"}};
  for (const std::string_view recipe : kGridRecipes) {
    std::vector<StoredCurve::Point> points = mean_curve(results, task, recipe, "eval");
    std::erase_if(points, [&](const auto& point) { return rule_before_colon(point.policy) != rule; });
    if (points.empty()) continue;
    const auto shown = [](const auto& point) { return fmt::format("{:.1f} at {:.1f}", point.score, point.layers); };
    std::sort(points.begin(), points.end(), [&](const auto& a, const auto& b) {
      return a.layers != b.layers ? a.layers < b.layers : shown(a) < shown(b);
    });
    std::vector<std::string> texts;
    std::vector<double> numbers;
    for (const StoredCurve::Point& point : points) {
      texts.push_back(shown(point));
      numbers.insert(numbers.end(), {point.score, point.layers});
    }
    table.rows.push_back({in_marks(recipe), {fmt::format("{}", fmt::join(texts, ", ")), std::move(numbers)}});
  }
  return table;
}

}  // namespace

ResultTables chosen_tables(const StoredResults& results) {
  constexpr std::string_view kTask = "SST-2";
  std::vector<double> held_scores, dev_scores;
  for (const StoredRun* run : runs_of(results, kTask, "plain")) {
    if (run->held_out.empty() || run->exits.empty()) continue;
    if (const auto score = score_of(kTask, run->held_out.back())) held_scores.push_back(*score);
    if (const auto score = score_of(kTask, run->exits.back())) dev_scores.push_back(*score);
  }
  const std::optional<double> held = mean_of(held_scores), dev = mean_of(dev_scores);
  if (!held || !dev || results.curves.empty()) return {};
  ResultTable table{.header = {"recipe", "seeds", "policy", "held-out", "dev (against plain)", "layers", "fewer"}};
  table.remark = fmt::format("`plain` at full depth: {:.1f} on the held-out rows, {:.1f} on dev.", *held, *dev);
  for (const std::string_view recipe : kGridRecipes) {
    if (recipe == "plain") continue;
    const auto on_held = mean_curve(results, kTask, recipe, "held-out"),
               on_dev = mean_curve(results, kTask, recipe, "eval");
    std::vector<Cell> row{in_marks(recipe), count_cell(runs_of(results, kTask, recipe).size())};
    const StoredCurve::Point* best = earliest(on_held, *held - kHeldOutLoss);
    const auto read = std::find_if(on_dev.begin(), on_dev.end(),
                                   [&](const auto& point) { return best != nullptr && point.policy == best->policy; });
    if (read == on_dev.end()) {
      row.insert(row.end(), {"none", "", "", "", ""});
    } else {
      const double fewer = kGridLayers / read->layers;
      row.insert(row.end(), {in_marks(best->policy),
                             one_digit(best->score),
                             with_difference(read->score, *dev),
                             {fmt::format("{:.2f}", read->layers), {read->layers}},
                             {fmt::format("{:.2f}×", fewer), {fewer}}});
    }
    table.rows.push_back(std::move(row));
  }
  return {table};
}

ResultTables policy_tables(const StoredResults& results) {
  std::vector<std::string_view> tasks(kWholeTasks.begin(), kWholeTasks.end());
  tasks.insert(tasks.end(), kSubsetTasks.begin(), kSubsetTasks.end());
  ResultTables tables;
  for (const std::string_view task : tasks) {
    for (const std::string_view rule : kCurveRules) tables.push_back(curve_table(results, task, rule));
  }
  std::erase_if(tables, [](const ResultTable& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace exeunt
