// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/eval/scores.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "lab/choose/recommend.h"

namespace exeunt {
namespace {

std::string points(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", 100 * share) : "-";
}

// What the functions below share.
struct Context {
  const Recommendation& what;
  std::span<const RunOnTrial> runs;
  const Goal& goal;
  Asker asker = Asker::recommend;

  [[nodiscard]] const RunOnTrial& run_of(const Alternative& one) const { return runs[one.run]; }
  [[nodiscard]] const std::vector<int>& layers_of(const Alternative& one) const {
    return run_of(one).trace->info.layers;
  }
  [[nodiscard]] std::string quality_name() const {
    return what.labelled ? std::string(name_of(runs[0].primary)) : "agreement";
  }
  // Where it is not the quality already, and numbers never agree to the last bit.
  [[nodiscard]] bool agreement_counts() const {
    return what.labelled && runs[0].trace->info.problem != Problem::regression;
  }
  [[nodiscard]] std::string goal_text() const {
    return goal.speedup ? fmt::format("{:g}x", *goal.speedup) : fmt::format("{:g} %", 100 * *goal.max_drop);
  }
  [[nodiscard]] std::string certainty() const { return fmt::format("with confidence {:g} %", 100 * goal.confidence); }
};

std::string speed_text(const Context& context, const Alternative& one) {
  if (context.goal.timed) {
    return fmt::format("{:.2f} times as fast ({:.3f} ms a text)", one.speedup, one.score.predicted_ms.value_or(NAN));
  }
  return fmt::format("{:.2f} times fewer layers ({:.2f} of {} on average)", one.speedup, one.score.cost.average_layers,
                     context.layers_of(one).back());
}

std::string named(const Context& context, const Alternative& one) {
  const std::string exits = chosen_exits(one.policy, context.layers_of(one));
  return fmt::format("{}{}{}", str(one.policy), exits.empty() ? "" : " with the exits " + exits,
                     context.runs.size() > 1 ? " of " + context.run_of(one).name : "");
}

// A loss in the words of its kind: answers that change, or what is lost.
std::string loss_text(const Context& context, double loss) {
  return context.what.loss == RiskLoss::disagreement ? fmt::format("{} % changed", points(loss))
                                                     : fmt::format("a loss of {} %", points(loss));
}

// The last line of the verdict if the report rows do not confirm it.
std::string missed_text(const Context& context) {
  if (context.what.met_fresh) return {};
  const Alternative& best = context.what.best();
  if (context.goal.speedup)
    return fmt::format("\n  {:.2f}x short of {} on fresh texts", best.missed_by, context.goal_text());
  return fmt::format("\n  on fresh texts {}, {} points over the {} asked for", loss_text(context, best.loss_mean),
                     points(best.missed_by), context.goal_text());
}

std::string verdict_of(const Context& context) {
  const Alternative& best = context.what.best();
  const std::string quality = fmt::format(
      "{} {} (95 %: {} to {}), at full depth {}", context.quality_name(), points(best.quality),
      points(best.quality_bounds.low), points(best.quality_bounds.high), points(context.what.full[best.run].quality));
  if (context.what.met) {
    const std::string promise = context.goal.speedup     ? ""
                                : context.what.certified ? "\n  promise: " + promise_of(best.calibration->entry)
                                                         : "\n  promise: " + no_promise("not certified");
    return fmt::format("use {}: {}\n  {}{}{}", named(context, best), speed_text(context, best), quality, promise,
                       missed_text(context));
  }
  if (context.goal.speedup) {
    return fmt::format("{} cannot be met; the nearest is {}: {}\n  {}", context.goal_text(), named(context, best),
                       speed_text(context, best), quality);
  }
  return fmt::format("no early exit stays within {}{}; run at full depth{}: {} {}", context.goal_text(),
                     context.what.certify_rows > 0 ? fmt::format(" {}", context.certainty()) : "",
                     context.runs.size() > 1 ? " of " + context.run_of(best).name : "", context.quality_name(),
                     points(context.what.full[best.run].quality));
}

// A family without a certified early exit is full depth as well, and needs no row.
bool is_full(const Alternative& one) {
  return one.policy.rule == rule_of<FullRule>;
}

void fill_table(const Context& context, RecommendationText& out) {
  const Recommendation& what = context.what;
  std::vector<std::function<std::string(const Alternative&)>> cells;
  const auto add = [&](bool shown, const std::string& header, auto&& cell) {
    if (!shown) return;
    out.header.push_back(header);
    cells.emplace_back(cell);
  };
  using One = const Alternative&;
  const auto range_text = [](double low, double high) { return fmt::format("{}-{}", points(low), points(high)); };
  add(context.runs.size() > 1, "run", [&](One one) { return context.run_of(one).name; });
  add(true, "policy", [&](One one) {
    const std::string exits = chosen_exits(one.policy, context.layers_of(one));
    return exits.empty() ? str(one.policy) : fmt::format("{} @ {}", str(one.policy), exits);
  });
  add(true, "layers", [](One one) { return fmt::format("{:.2f}", one.score.cost.average_layers); });
  add(true, "speed-up", [](One one) { return fmt::format("{:.2f}", one.speedup); });
  add(what.best().score.predicted_ms.has_value(), "ms",
      [](One one) { return fmt::format("{:.3f}", one.score.predicted_ms.value_or(NAN)); });
  add(true, context.quality_name(), [](One one) { return points(one.quality); });
  add(true, "95 %", [&](One one) { return range_text(one.quality_bounds.low, one.quality_bounds.high); });
  add(what.labelled, "lost", [](One one) { return points(one.lost.value); });
  add(context.agreement_counts(), "agreement", [](One one) { return points(one.score.agreement); });
  add(true, what.loss == RiskLoss::disagreement ? "changed, 95 %" : "loss, 95 %",
      [&](One one) { return is_full(one) ? "0.00" : range_text(one.loss_bounds.low, one.loss_bounds.high); });
  add(true, "certified", [](One one) { return is_full(one) ? "" : one.calibration ? "yes" : "no"; });
  const auto add_row = [&](One one, bool use) {
    std::vector<std::string>& row = out.rows.emplace_back();
    for (const auto& cell : cells) row.push_back(cell(one));
    row.emplace_back(use ? "*" : "");
  };
  out.header.emplace_back("use");
  // Of the run to use every rule, of the others the best.
  std::set<size_t> seen;
  for (const Alternative& one : what.options) {
    if (!is_full(one) && (seen.insert(one.run).second || one.run == what.best().run))
      add_row(one, &one == &what.best());
  }
  for (const Alternative& one : what.full) add_row(one, is_full(what.best()) && one.run == what.best().run);
}

// What an alternative showed on the selection rows. A certificate is tested on other rows, so there a family is judged
// by its expected speed-up.
std::string chosen_figures(const Context& context, const Alternative& one) {
  if (context.goal.speedup)
    return fmt::format("{} {} at {:.2f}x", context.quality_name(), points(one.chosen_quality), one.chosen_speedup);
  if (context.what.certify_rows > 0) return fmt::format("{:.2f}x expected", one.chosen_speedup);
  return fmt::format("{:.2f}x with {}", one.chosen_speedup, loss_text(context, one.chosen_loss));
}

// The winner's figures, and those of the next rule or run that met the goal, if there is one.
std::string why(const Context& context) {
  const Recommendation& what = context.what;
  if (!what.met) return {};
  const std::string field =
      fmt::format("{} rule{}{}", what.families, what.families == 1 ? "" : "s",
                  context.runs.size() > 1 ? fmt::format(" and {} runs", context.runs.size()) : "");
  const std::string best = context.goal.speedup
                               ? fmt::format("none kept more {} at {}", context.quality_name(), context.goal_text())
                               : fmt::format("none was expected to be faster within {}", context.goal_text());
  const Alternative& winner = what.best();
  const auto next = std::find_if(what.options.begin() + 1, what.options.end(), [&](const Alternative& one) {
    return one.meets && !is_full(one) && (one.family != winner.family || one.run != winner.run);
  });
  const std::string other = next == what.options.end()
                                ? "no other met it"
                                : fmt::format("next is {}, {}", named(context, *next), chosen_figures(context, *next));
  return fmt::format("why: of {}, {} on the {} selection texts: {}; {}", field, best, what.choose_rows,
                     chosen_figures(context, winner), other);
}

// What to do if the report rows miss a goal that the selection rows met.
std::string after_a_miss(const Context& context) {
  const Recommendation& what = context.what;
  const Alternative& best = what.best();
  if (context.goal.speedup) {
    // The excess there over here, added to the target, if anything is that fast.
    const double safer = std::ceil(10 * *context.goal.speedup * best.chosen_speedup / best.speedup) / 10;
    return fmt::format(
        "missed: {:.2f}x on the {} selection texts, {:.2f}x on the {} fresh ones. What would help: {}more held-out "
        "texts to choose on",
        best.chosen_speedup, what.choose_rows, best.speedup, what.report_rows,
        safer <= what.fastest ? fmt::format("--target-speedup {:.1f}x, or ", safer) : "");
  }
  const std::string seen = what.certified ? fmt::format(
                                                "the certificate stands on {} texts, and the {} fresh ones differ from "
                                                "them by chance or in distribution",
                                                what.certify_rows, what.report_rows)
                                          : fmt::format("{} on the {} selection texts, {} on the {} fresh ones",
                                                        loss_text(context, best.chosen_loss), what.choose_rows,
                                                        loss_text(context, best.loss_mean), what.report_rows);
  return fmt::format(
      "missed: {}. What would help: more held-out texts, or a smaller --max-drop. A row above that looks better here "
      "was not selected: selected on these texts, its figures would be biased",
      seen);
}

std::string where_from(const Context& context) {
  const Recommendation& what = context.what;
  const std::string certify = what.certified ? fmt::format("; certified on {} more", what.certify_rows) : "";
  return fmt::format("selected on {} texts; the table is from {} others not used for selection{}", what.choose_rows,
                     what.report_rows, certify);
}

void add_help(const Context& context, std::vector<std::string>& notes) {
  const Recommendation& what = context.what;
  const bool one_exit = std::all_of(context.runs.begin(), context.runs.end(),
                                    [](const RunOnTrial& run) { return run.trace->info.layers.size() == 1; });
  if (one_exit) {
    notes.push_back(fmt::format(
        "what would help: exits. There is one alone, at the last layer; {} puts one after each layer",
        context.asker == Asker::recommend ? "'exeunt train --recipe exeunt'" : "the recipe exeunt (add it to --try)"));
    return;
  }
  if (context.goal.speedup && !what.met) {
    notes.push_back(fmt::format(
        "what would help: a smaller target. Exiting at the first exit, after layer {}, gives {:.2f}x, the maximum",
        context.layers_of(what.best()).front(), what.fastest));
  }
  if (!context.goal.max_drop) return;
  if (context.asker == Asker::recommend && what.labelled && what.loss == RiskLoss::disagreement)
    notes.emplace_back(kAccuracyOffer);
  const auto rows = static_cast<int64_t>(what.choose_rows + what.certify_rows + what.report_rows);
  if (!what.uncertified.empty()) notes.push_back(fmt::format("not certified: {}", what.uncertified));
  if (what.certify_rows == 0 && context.goal.certify) {
    notes.push_back(fmt::format(
        "not certified: {} {} needs at least {} texts, and there are {}; unlabelled texts count too ('exeunt "
        "calibrate --unlabelled FILE'). Nothing is guaranteed: the texts that chose the setting show less loss than "
        "fresh "
        "ones will",
        context.goal_text(), context.certainty(), what.rows_for_certificate, rows));
  }
  if (what.met) return;
  notes.push_back(what.nearest ? fmt::format("the nearest that can be met: --max-drop {:g}%, for about {:.2f}x",
                                             100 * what.nearest->max_drop, what.nearest->speedup)
                               : "no budget up to 30 % would make it faster");
  notes.emplace_back(context.asker == Asker::recommend
                         ? "what would help: more texts, so that less caution is needed, or another training: 'exeunt "
                           "train --recipe auto' compares recipes"
                         : "what would help: more texts, to learn from and to compare on, or other recipes (--try)");
}

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson alternative_json(const Context& context, const Alternative& one) {
  OrderedJson out;
  out["run"] = context.run_of(one).name;
  out["family"] = one.family;
  out.update(score_json(one.score));
  out["evaluated"] = one.policy.exits.empty() ? context.layers_of(one) : one.policy.exits;
  out["speedup"] = number(one.speedup);
  out["quality"] = number(one.quality);
  out["quality_bounds"] = {number(one.quality_bounds.low), number(one.quality_bounds.high)};
  out["lost"] = number(one.lost.value);
  out["lost_bounds"] = {number(one.lost.bounds.low), number(one.lost.bounds.high)};
  out["loss"] = number(one.loss_mean);
  out["loss_bounds"] = {number(one.loss_bounds.low), number(one.loss_bounds.high)};
  out["certified"] = one.calibration && !is_full(one);
  out["meets"] = one.meets;
  out["meets_fresh"] = one.meets_fresh;
  if (!one.meets_fresh) out["missed_by"] = number(one.missed_by);
  out["chosen_by"] = {{"quality", number(one.chosen_quality)},
                      {"speedup", number(one.chosen_speedup)},
                      {"loss", number(one.chosen_loss)}};
  return out;
}

}  // namespace

std::string chosen_exits(const PolicySpec& policy, const std::vector<int>& layers) {
  return policy.exits.empty() || policy.exits == layers ? "" : fmt::format("{}", fmt::join(policy.exits, ","));
}

RecommendationText explained(const Recommendation& recommendation, std::span<const RunOnTrial> runs, const Goal& goal,
                             Asker asker) {
  const Context context{recommendation, runs, goal, asker};
  RecommendationText out;
  out.verdict = verdict_of(context);
  fill_table(context, out);
  if (const std::string reason = why(context); !reason.empty()) out.notes.push_back(reason);
  out.notes.push_back(where_from(context));
  if (recommendation.labelled && recommendation.met) {
    const Difference& lost = recommendation.best().lost;
    out.notes.push_back(
        lost.bounds.high > lost.bounds.low
            ? fmt::format("lost against full depth: {} points (95 %: {} to {})", points(lost.value),
                          points(lost.bounds.low), points(lost.bounds.high))
            : fmt::format("lost against full depth: {} points: all {} answers are the same, which bounds nothing",
                          points(lost.value), recommendation.report_rows));
  }
  if (recommendation.met && !recommendation.met_fresh) out.notes.push_back(after_a_miss(context));
  add_help(context, out.notes);
  return out;
}

OrderedJson recommendation_json(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                const Goal& goal) {
  const Context context{recommendation, runs, goal};
  OrderedJson out;
  OrderedJson& asked = out["goal"];
  if (goal.speedup) asked["speedup"] = *goal.speedup;
  if (goal.max_drop) asked["max_drop"] = *goal.max_drop;
  asked["counts"] = goal.timed ? "time" : "layers";
  asked["loss"] = name_of(recommendation.loss);
  asked["confidence"] = goal.confidence;
  out["met"] = recommendation.met;
  out["met_fresh"] = recommendation.met_fresh;
  out["certified"] = recommendation.certified;
  out["quality"] = context.quality_name();
  out["use"] = alternative_json(context, recommendation.best());
  out["options"] = OrderedJson::array();
  for (const Alternative& one : recommendation.options) out["options"].push_back(alternative_json(context, one));
  out["full_depth"] = OrderedJson::array();
  for (const Alternative& one : recommendation.full) out["full_depth"].push_back(alternative_json(context, one));
  out["rows"] = {{"choose", recommendation.choose_rows},
                 {"certify", recommendation.certify_rows},
                 {"report", recommendation.report_rows}};
  if (goal.max_drop) out["rows_for_certificate"] = recommendation.rows_for_certificate;
  out["fastest"] = number(recommendation.fastest);
  if (recommendation.nearest) {
    out["nearest"] = {{"max_drop", recommendation.nearest->max_drop}, {"speedup", recommendation.nearest->speedup}};
  }
  return out;
}

}  // namespace exeunt
