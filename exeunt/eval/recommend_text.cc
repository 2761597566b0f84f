// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/recommend_text.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/eval/sweep.h"
#include "exeunt/exits/policy_text.h"

namespace exeunt {
namespace {

std::string points(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", 100 * share) : "-";
}

// What the pieces below all look at.
struct Told {
  const Recommendation& what;
  std::span<const RunOnTrial> runs;
  const Goal& goal;

  [[nodiscard]] const RunOnTrial& run_of(const Alternative& one) const { return runs[one.run]; }
  [[nodiscard]] const std::vector<int>& layers_of(const Alternative& one) const {
    return run_of(one).trace->info.layers;
  }
  [[nodiscard]] std::string quality_name() const {
    return what.labelled ? std::string(name_of(runs[0].primary)) : "agreement";
  }
  // Where it is not the quality already, and numbers never agree to the last bit.
  [[nodiscard]] bool agreement_counts() const { return what.labelled && !runs[0].trace->info.regression; }
  [[nodiscard]] std::string bound_name() const {
    return what.loss == Loss::disagreement ? "changed, at most" : "loss, at most";
  }
  [[nodiscard]] std::string goal_text() const {
    return goal.speedup ? fmt::format("{:g}x", *goal.speedup) : fmt::format("{:g} %", 100 * *goal.drop);
  }
  [[nodiscard]] std::string certainty() const { return fmt::format("with confidence {:g} %", 100 * goal.confidence); }
};

std::string speed_text(const Told& told, const Alternative& one) {
  if (told.goal.timed) {
    return fmt::format("{:.2f} times as fast ({:.3f} ms a text)", one.speedup, one.score.predicted_ms.value_or(NAN));
  }
  return fmt::format("{:.2f} times fewer layers ({:.2f} of {} on average)", one.speedup, one.score.cost.average_layers,
                     told.layers_of(one).back());
}

std::string named(const Told& told, const Alternative& one) {
  const std::string exits = chosen_exits(one.policy, told.layers_of(one));
  return fmt::format("{}{}{}", str(one.policy), exits.empty() ? "" : " with the exits " + exits,
                     told.runs.size() > 1 ? " of " + told.run_of(one).name : "");
}

std::string verdict_of(const Told& told) {
  const Alternative& best = told.what.best();
  const std::string quality = fmt::format("{} {} (95 %: {} to {}), at full depth {}", told.quality_name(),
                                          points(best.quality), points(best.quality_bounds.low),
                                          points(best.quality_bounds.high), points(told.what.full[best.run].quality));
  if (told.what.met) {
    const std::string promise = told.goal.speedup ? ""
                                : told.what.certified
                                    ? fmt::format("\n  certified: {} at most {} {}", name_of(told.what.loss),
                                                  told.goal_text(), told.certainty())
                                    : "\n  not certified";
    return fmt::format("use {}: {}\n  {}{}", named(told, best), speed_text(told, best), quality, promise);
  }
  if (told.goal.speedup) {
    return fmt::format("{} cannot be met; the nearest is {}: {}\n  {}", told.goal_text(), named(told, best),
                       speed_text(told, best), quality);
  }
  return fmt::format("no early exit stays within {}{}; run at full depth{}: {} {}", told.goal_text(),
                     told.what.certify_rows > 0 ? fmt::format(" {}", told.certainty()) : "",
                     told.runs.size() > 1 ? " of " + told.run_of(best).name : "", told.quality_name(),
                     points(told.what.full[best.run].quality));
}

std::string certified_text(const Alternative& one) {
  if (one.calibration) return one.policy.rule == rule_of<FullRule> ? "full depth" : "yes";
  return one.family == "full" ? "" : "no";
}

std::vector<std::string> row_of(const Told& told, const Alternative& one, bool use) {
  std::vector<std::string> row;
  const Recommendation& what = told.what;
  if (told.runs.size() > 1) row.push_back(told.run_of(one).name);
  const std::string exits = chosen_exits(one.policy, told.layers_of(one));
  row.push_back(exits.empty() ? str(one.policy) : fmt::format("{} @ {}", str(one.policy), exits));
  row.push_back(fmt::format("{:.2f}", one.score.cost.average_layers));
  row.push_back(fmt::format("{:.2f}", one.speedup));
  if (one.score.predicted_ms) row.push_back(fmt::format("{:.3f}", *one.score.predicted_ms));
  row.push_back(points(one.quality));
  row.push_back(fmt::format("{}-{}", points(one.quality_bounds.low), points(one.quality_bounds.high)));
  if (what.labelled) row.push_back(points(one.lost.value));
  if (told.agreement_counts()) row.push_back(points(one.score.agreement));
  row.push_back(one.family == "full" ? "0.00" : points(one.loss_bound));
  row.push_back(certified_text(one));
  row.push_back(use ? "*" : "");
  return row;
}

void fill_table(const Told& told, RecommendationText& out) {
  const Recommendation& what = told.what;
  if (told.runs.size() > 1) out.header.emplace_back("run");
  out.header.insert(out.header.end(), {"policy", "layers", "speed-up"});
  if (what.best().score.predicted_ms) out.header.emplace_back("ms");
  out.header.insert(out.header.end(), {told.quality_name(), "95 %"});
  if (what.labelled) out.header.emplace_back("lost");
  if (told.agreement_counts()) out.header.emplace_back("agreement");
  out.header.insert(out.header.end(), {told.bound_name(), "certified", "use"});
  // Of the run to use every rule, of the others the best.
  std::set<size_t> seen;
  for (size_t i = 0; i < what.options.size(); ++i) {
    const Alternative& one = what.options[i];
    if (one.family == "full") continue;
    if (!seen.insert(one.run).second && one.run != what.best().run) continue;
    out.rows.push_back(row_of(told, one, i == 0));
  }
  for (const Alternative& one : what.full)
    out.rows.push_back(row_of(told, one, what.best().family == "full" && one.run == what.best().run));
}

std::string why(const Told& told) {
  const Recommendation& what = told.what;
  const std::string field = fmt::format("{} rule{}{}", what.families, what.families == 1 ? "" : "s",
                                        told.runs.size() > 1 ? fmt::format(" and {} runs", told.runs.size()) : "");
  if (!what.met) return {};
  if (told.goal.speedup) {
    return fmt::format("why: of {}, none kept more {} at {} on {} texts", field, told.quality_name(), told.goal_text(),
                       what.choose_rows);
  }
  return fmt::format("why: of {}, none was expected to be faster within {} by {} texts", field, told.goal_text(),
                     what.choose_rows);
}

std::string where_from(const Told& told) {
  const Recommendation& what = told.what;
  const std::string certify =
      what.certify_rows > 0 ? fmt::format("; '{}' from {} more", told.bound_name(), what.certify_rows) : "";
  return fmt::format("chosen on {} texts; the table is from {} others, which had no say in the choice{}",
                     what.choose_rows, what.report_rows, certify);
}

void add_help(const Told& told, std::vector<std::string>& notes) {
  const Recommendation& what = told.what;
  const bool one_exit = std::all_of(told.runs.begin(), told.runs.end(),
                                    [](const RunOnTrial& run) { return run.trace->info.layers.size() == 1; });
  if (one_exit) {
    notes.emplace_back(
        "what would help: exits. There is one alone, at the last layer; 'exeunt train --recipe exeunt' puts one after "
        "each layer");
    return;
  }
  if (told.goal.speedup && !what.met) {
    notes.push_back(
        fmt::format("what would help: a smaller target. Leaving at the first exit, after layer {}, makes {:.2f}x, "
                    "which is the most",
                    told.layers_of(what.best()).front(), what.fastest));
  }
  if (!told.goal.drop) return;
  const auto rows = static_cast<int64_t>(what.choose_rows + what.certify_rows + what.report_rows);
  if (what.certify_rows == 0 && told.goal.certify) {
    notes.push_back(fmt::format(
        "not certified: {} {} takes {} texts or more, and there are {}; texts without labels count, too ('exeunt "
        "calibrate --unlabelled FILE'). Chosen so that it holds on average, one loss more taken for granted",
        told.goal_text(), told.certainty(), what.rows_for_certificate, rows));
  }
  if (what.met) return;
  notes.push_back(what.nearest ? fmt::format("the nearest that can be met: --max-drop {:g}%, for about {:.2f}x",
                                             100 * what.nearest->epsilon, what.nearest->speedup)
                               : "no budget up to 30 % would make it faster");
  notes.emplace_back(
      "what would help: more texts, so that less caution is needed, or another training: 'exeunt train --recipe auto' "
      "compares recipes");
}

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson alternative_json(const Told& told, const Alternative& one) {
  OrderedJson out;
  out["run"] = told.run_of(one).name;
  out["family"] = one.family;
  out.update(score_json(one.score));
  out["evaluated"] = one.policy.exits.empty() ? told.layers_of(one) : one.policy.exits;
  out["speedup"] = number(one.speedup);
  out["quality"] = number(one.quality);
  out["quality_bounds"] = {number(one.quality_bounds.low), number(one.quality_bounds.high)};
  out["lost"] = number(one.lost.value);
  out["lost_bounds"] = {number(one.lost.bounds.low), number(one.lost.bounds.high)};
  out["loss"] = number(one.loss_mean);
  out["loss_bound"] = number(one.loss_bound);
  out["certified"] = one.calibration && one.policy.rule != rule_of<FullRule>;
  out["meets"] = one.meets;
  out["chosen_by"] = {{"quality", number(one.chosen_quality)}, {"speedup", number(one.chosen_speedup)}};
  return out;
}

}  // namespace

std::string chosen_exits(const PolicySpec& policy, const std::vector<int>& layers) {
  return policy.exits.empty() || policy.exits == layers ? "" : fmt::format("{}", fmt::join(policy.exits, ","));
}

RecommendationText explained(const Recommendation& recommendation, std::span<const RunOnTrial> runs, const Goal& goal) {
  const Told told{recommendation, runs, goal};
  RecommendationText out;
  out.verdict = verdict_of(told);
  fill_table(told, out);
  if (const std::string reason = why(told); !reason.empty()) out.notes.push_back(reason);
  out.notes.push_back(where_from(told));
  if (recommendation.labelled && recommendation.met) {
    const Difference& lost = recommendation.best().lost;
    out.notes.push_back(fmt::format("lost against full depth: {} points (95 %: {} to {})", points(lost.value),
                                    points(lost.bounds.low), points(lost.bounds.high)));
  }
  add_help(told, out.notes);
  return out;
}

OrderedJson recommendation_json(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                const Goal& goal) {
  const Told told{recommendation, runs, goal};
  OrderedJson out;
  OrderedJson& asked = out["goal"];
  if (goal.speedup) asked["speedup"] = *goal.speedup;
  if (goal.drop) asked["drop"] = *goal.drop;
  asked["counts"] = goal.timed ? "time" : "layers";
  asked["loss"] = name_of(recommendation.loss);
  asked["confidence"] = goal.confidence;
  out["met"] = recommendation.met;
  out["certified"] = recommendation.certified;
  out["quality"] = told.quality_name();
  out["use"] = alternative_json(told, recommendation.best());
  out["options"] = OrderedJson::array();
  for (const Alternative& one : recommendation.options) out["options"].push_back(alternative_json(told, one));
  out["full_depth"] = OrderedJson::array();
  for (const Alternative& one : recommendation.full) out["full_depth"].push_back(alternative_json(told, one));
  out["rows"] = {{"choose", recommendation.choose_rows},
                 {"certify", recommendation.certify_rows},
                 {"report", recommendation.report_rows}};
  if (goal.drop) out["rows_for_certificate"] = recommendation.rows_for_certificate;
  out["fastest"] = number(recommendation.fastest);
  if (recommendation.nearest) {
    out["nearest"] = {{"drop", recommendation.nearest->epsilon}, {"speedup", recommendation.nearest->speedup}};
  }
  return out;
}

}  // namespace exeunt
