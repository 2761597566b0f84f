// SPDX-License-Identifier: Apache-2.0
// `exeunt eval`: quality and cost of one policy, and of every exit.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/shift.h"
#include "exeunt/certify/split.h"
#include "exeunt/certify/tries.h"
#include "exeunt/eval/drift.h"
#include "exeunt/eval/model_policy.h"

namespace exeunt::apps {
namespace {

struct EvalFlags {
  MeasureOptions run{.fp32_answers = true};
  std::string policy, exits, against, positive, baseline;
  bool each_exit = false, each_class = false;
};

// The index of the class that f1 is of: the one named, else the second.
int positive_of(const EvalFlags& flags, const std::vector<std::string>& labels) {
  if (flags.positive.empty()) return ScorerOptions{}.positive;
  const auto found = std::find(labels.begin(), labels.end(), flags.positive);
  if (found != labels.end()) return static_cast<int>(found - labels.begin());
  throw Error(Code::usage, fmt::format("--positive: the model has no label '{}'", flags.positive),
              suggestion(flags.positive, labels));
}

// "f1 of 'spam'": which class a figure of one class is of.
std::string title_of(Metric metric, const std::vector<std::string>& labels, int positive) {
  const auto index = static_cast<size_t>(positive);
  if (metric != Metric::f1 || index >= labels.size()) return std::string(name_of(metric));
  return fmt::format("f1 of '{}'", labels[index]);
}

void print_classes(const ClassReport& report, const std::vector<std::string>& labels) {
  constexpr size_t kPairs = 5;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    const ClassFigures& figures = report.classes[i];
    rows.push_back({labels[i], percent(figures.precision), percent(figures.recall), percent(figures.f1),
                    fmt::format("{}", figures.support)});
  }
  print_table({"class", "precision", "recall", "f1", "texts"}, rows);
  fmt::print("macro f1 {}, micro f1 {}, weighted f1 {}\n", percent(report.macro_f1), percent(report.micro_f1),
             percent(report.weighted_f1));
  for (const ConfusedPair& pair : report.worst(kPairs)) {
    fmt::print("{} of {} '{}' answered as '{}'\n", pair.rows, report.classes[pair.gold].support, labels[pair.gold],
               labels[pair.answer]);
  }
  fmt::print("\n");
}

// An exit that is better than the last one, and what that means.
std::string best_exit_text(const std::vector<ExitScore>& exits, Metric primary, size_t rows) {
  if (exits.empty() || exits.back().metrics.empty()) return {};
  const auto value = [&](const ExitScore& exit) { return primary_of(exit.metrics, primary); };
  const auto best =
      std::max_element(exits.begin(), exits.end(), [&](const auto& a, const auto& b) { return value(a) < value(b); });
  if (!clearly_better(value(*best), value(exits.back()), rows)) return {};
  return fmt::format(
      "the exit after layer {} is the best, {} {} against {} at the last, which every promise is measured "
      "against: a policy layer:{} stops there",
      best->layer, name_of(primary), percent(value(*best)), percent(value(exits.back())), best->layer);
}

void print_exits(const std::vector<ExitScore>& exits, const std::string& reference) {
  std::vector<std::string> header{"exit after"};
  for (const Score& metric : exits.front().metrics) header.emplace_back(name_of(metric.metric));
  header.insert(header.end(), {"agreement with " + reference, "calibration error"});
  std::vector<std::vector<std::string>> rows;
  for (const ExitScore& exit : exits) {
    std::vector<std::string> row{fmt::format("{}", exit.layer)};
    for (const Score& metric : exit.metrics) row.push_back(percent(metric.value));
    row.insert(row.end(), {percent(exit.agreement), percent(exit.calibration_error)});
    rows.push_back(std::move(row));
  }
  print_table(header, rows);
}

void print_score(const PolicyScore& score, const Measured& measured, int positive) {
  const std::vector<int>& layers = measured.trace.info.layers;
  std::vector<std::pair<std::string, std::string>> rows{{"policy", score.policy}};
  for (const Score& metric : score.metrics)
    rows.emplace_back(title_of(metric.metric, measured.trace.info.labels, positive), percent(metric.value));
  rows.emplace_back("agreement", fmt::format("{} with {}", percent(score.agreement), measured.trace.reference_name()));
  rows.emplace_back("average layers", fmt::format("{:.2f} of {}", score.cost.average_layers, layers.back()));
  rows.emplace_back("speed-up ratio", fmt::format("{:.2f}x fewer layers", score.cost.speedup_ratio));
  if (score.mflops) rows.emplace_back("MFLOPs per text", fmt::format("{:.1f}", *score.mflops));
  if (score.mflops_padded) {
    rows.emplace_back("  padded",
                      fmt::format("{:.1f} at {} tokens", *score.mflops_padded, measured.trace.info.max_length));
  }
  if (score.predicted_ms) {
    rows.emplace_back("predicted time",
                      fmt::format("{:.3f} ms per text ({})", *score.predicted_ms, measured.profile->name()));
  }
  print_pairs(rows);
  fmt::print("\n");
  std::vector<std::vector<std::string>> table;
  int64_t texts = 0;
  for (const int64_t count : score.histogram) texts += count;
  for (size_t exit = 0; exit < layers.size(); ++exit) {
    const double share = static_cast<double>(score.histogram[exit]) / static_cast<double>(std::max<int64_t>(1, texts));
    std::string bar;
    for (long i = 0; i < std::lround(share * 40); ++i) bar += "█";
    table.push_back({fmt::format("{}", layers[exit]), fmt::format("{}", score.histogram[exit]), percent(share), bar});
  }
  print_table({"exit after", "texts", "%", ""}, table);
}

// Texts that are answered in other shares than those a promise was tested on, and what that means.
std::string shift_text(const ResolvedPolicy& resolved, const ExitTrace& trace) {
  constexpr double kLevel = 0.01;
  if (!resolved.certificate || resolved.certificate->certify.data == trace.info.data) return {};
  const auto shift = shift_between(resolved.certificate->answers, full_depth_answers(trace));
  if (!shift || shift->p_value >= kLevel) return {};
  return fmt::format(
      "the promise was tested on texts with other answers: '{}' is {} % of them at full depth and {} % here "
      "(chi-square "
      "over all answers, p = {:.1g}); for texts like these, calibrate on some of them",
      trace.info.labels.at(shift->most), percent(shift->there), percent(shift->here), shift->p_value);
}

OrderedJson drift_json(const Drift& drift) {
  return {
      {"labels", drift.labels},         {"full_depth_labels", drift.full_labels},
      {"exits", drift.exits},           {"average_layers", {drift.average_layers_before, drift.average_layers_after}},
      {"mean_logit", drift.mean_logit}, {"largest_logit", drift.largest_logit}};
}

void run(const Common& common, const EvalFlags& flags) {
  const Measured measured = measure(flags.run, observer(common));
  count_look(measured);
  if (const std::string text = learned_text(measured.trace); !text.empty()) notice(common, text);
  const std::vector<std::string>& labels = measured.trace.info.labels;
  ScorerOptions scoring = scorer_options(measured);
  scoring.positive = positive_of(flags, labels);
  Scorer scorer(measured.trace, scoring);
  const ResolvedPolicy resolved = resolve_measured(
      measured, {.policy = flags.policy, .exits = layer_list(flags.exits, "--exits")}, observer(common));
  const PolicySpec& policy = resolved.policy;
  const PolicyScore score = scorer.score(policy);
  const std::optional<ExitTrace> other =
      flags.against.empty() ? std::nullopt : std::optional(read_trace(flags.against));
  const std::vector<ExitScore> exits = scorer.each_exit();
  std::vector<Metric> metrics;
  for (const Score& one : score.metrics) metrics.push_back(one.metric);
  const std::vector<BaselineScore> baseline = flags.baseline.empty()
                                                  ? std::vector<BaselineScore>{}
                                                  : baseline_for(flags.baseline, flags.run, measured, metrics);
  const bool classes = measured.trace.labelled() && measured.trace.info.problem != Problem::regression;
  if (flags.each_class && !classes) throw Error(Code::usage, "--each-class needs labelled rows and a model of classes");
  if (common.json) {
    OrderedJson out = score_json(score);
    if (classes) out.update(classes_json(scorer.classes(policy), labels));
    out["rows"] = measured.trace.rows;
    out["promise"] = resolved.promise;
    out["reference"] = measured.trace.reference_name();
    if (flags.each_exit) out["each_exit"] = exit_scores_json(exits);
    if (other) out["drift"] = drift_json(drift(*other, measured.trace, policy));
    for (const BaselineScore& one : baseline)
      for (const Score& metric : one.metrics)
        out["baseline"][one.name][std::string(name_of(metric.metric))] = metric.value;
    return print_json(out);
  }
  if (flags.each_exit) {
    print_exits(exits, measured.trace.reference_name());
    fmt::print("\n");
  }
  if (flags.each_class) print_classes(scorer.classes(policy), labels);
  const std::string changed = other ? drift_line(*other, measured.trace, policy) : "";
  print_score(score, measured, scoring.positive);
  if (other) fmt::print("\n{}\n", changed);
  for (const std::string& line : baseline_lines(baseline)) fmt::print("{}\n", line);
  const Metric primary = primary_metric(measured.trace);
  const std::string best = classes ? best_exit_text(exits, primary, measured.trace.rows) : std::string();
  for (const std::string& text : {best, shift_text(resolved, measured.trace),
                                  lost_to_baseline(baseline, primary, primary_of(exits.back().metrics, primary))}) {
    if (!text.empty()) notice(common, text);
  }
}

}  // namespace

void add_eval(CommandLine& line) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* verb = add_verb(
      line, "eval", "Evaluate the quality and cost of an exit policy",
      {"exeunt eval runs/my --each-exit", "exeunt eval models/sst2 --task SST-2 --data glue_data --policy entropy:0.2",
       "exeunt eval sst2.safetensors --each-exit --json", "exeunt eval models/sst2 --trace sst2.safetensors"},
      [flags, &common = line.common] { run(common, *flags); });
  add_run_flags(*verb, flags->run, Takes::model_or_trace);
  add_trace_flags(*verb, flags->run);
  add_score_flags(line, *verb, flags->run);
  verb->add_option("--policy", flags->policy,
                   "Exit policy, e.g. entropy:0.2, patience:6, layer:4, full, or a policy.json")
      ->default_str("the model's own");
  verb->add_option("--exits", flags->exits, "Comma-separated layers whose exits are used")->default_str("all");
  verb->add_option("--against", flags->against,
                   "Trace of the same model and texts in another precision or on another CPU; reports the share of "
                   "labels and exits that differ");
  verb->add_flag("--each-exit", flags->each_exit, "Also score every exit");
  verb->add_flag("--each-class", flags->each_class,
                 "Also print precision, recall and F1 of each class, and the most frequent mistakes");
  verb->add_option(
      "--baseline", flags->baseline,
      "Training rows as a file of yours: also score the majority class and a linear model that learn from it");
  verb->add_option("--positive", flags->positive, "The class that f1 is of")->default_str("the second");
}

}  // namespace exeunt::apps
