// SPDX-License-Identifier: Apache-2.0
// `exeunt calibrate`: a budget and a confidence become a certified policy.
#include "exeunt/exits/calibrate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/keep_policy.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/exits/policy_text.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct CalibrateFlags {
  RunFlags run;
  std::vector<std::string> budgets{"1%"}, families;
  std::string exits, loss, method, out, unlabelled;
  double confidence = 0.95;
  uint64_t seed = 42;
  bool no_temperatures = false;
};

CalibrationPlan plan_of(const CalibrateFlags& flags, const Measured& measured) {
  CalibrationPlan plan;
  plan.budgets.clear();
  for (const std::string& text : flags.budgets) {
    for (const std::string& one : comma_list(text)) plan.budgets.push_back(share_of(one, "--max-drop"));
  }
  std::sort(plan.budgets.begin(), plan.budgets.end());
  plan.delta = 1 - flags.confidence;
  if (!flags.loss.empty()) plan.loss = loss_named(flags.loss);
  if (!flags.method.empty()) plan.method = method_named(flags.method);
  plan.families = flags.families;
  plan.exits = layer_list(flags.exits, "--exits");
  plan.temperatures = !flags.no_temperatures;
  plan.range = label_range(measured);
  return plan;
}

// The data of the flags, and the texts without labels traced by the same model: disagreement with full depth needs
// none, so both can certify.
Measured measured_for(const Common& common, const CalibrateFlags& flags) {
  if (flags.unlabelled.empty()) return measure(common, flags.run);
  if (is_trace_file(flags.run.model))
    throw Error(Code::usage, "--unlabelled: got a trace alone, want a model to run on these texts");
  RunFlags run = flags.run;
  run.trace.clear();
  run.data.task.clear();
  run.data.data = flags.unlabelled;
  run.data.columns.label.clear();
  Measured measured = measure(common, run);
  if (flags.run.data.data.empty() && flags.run.trace.empty()) return measured;
  measured.trace = join_rows(measure(common, flags.run).trace, measured.trace, flags.unlabelled);
  return measured;
}

// Full depth and every budget's policy on the report part, by all metrics of the task: reported, not certified.
std::vector<PolicyScore> report_scores(const Measured& measured, const CalibrationData& data,
                                       const Calibration& calibration) {
  Scorer scorer(data.report, scorer_options(measured));
  std::vector<PolicyScore> scores{scorer.score(PolicySpec{})};
  for (const BudgetOutcome& outcome : calibration.outcomes) scores.push_back(scorer.score(outcome.policy));
  return scores;
}

OrderedJson metrics_json(const PolicyScore& score) {
  OrderedJson out = OrderedJson::object();
  for (const Score& metric : score.metrics)
    out[std::string(name_of(metric.metric))] = std::isfinite(metric.value) ? OrderedJson(metric.value) : nullptr;
  return out;
}

OrderedJson outcome_json(const BudgetOutcome& outcome, const PolicyScore& score) {
  OrderedJson out;
  out["policy"] = str(outcome.policy);
  out["epsilon"] = outcome.epsilon;
  out["losses"] = outcome.losses;
  out["p_value"] = outcome.p_value;
  out["upper_bound"] = outcome.upper_bound;
  out["certify_cost_fraction"] = outcome.certify_cost;
  out["report_cost_fraction"] = outcome.report_cost;
  out["report_risk"] = outcome.report_risk;
  out["report_metrics"] = metrics_json(score);
  return out;
}

void print_outcomes(const Calibration& calibration, const std::vector<PolicyScore>& scores) {
  std::vector<std::string> header{"budget", "policy", "bound", "lost", "fewer layers"};
  for (const Score& metric : scores.front().metrics) header.emplace_back(name_of(metric.metric));
  std::vector<std::vector<std::string>> rows{{"-", "full", "-", "0.00%", "1.00x"}};
  for (const BudgetOutcome& outcome : calibration.outcomes) {
    rows.push_back({fmt::format("{:g}%", 100 * outcome.epsilon), str(outcome.policy),
                    fmt::format("{:.2f}%", 100 * outcome.upper_bound),
                    fmt::format("{:.2f}%", 100 * outcome.report_risk),
                    fmt::format("{:.2f}x", 1 / outcome.report_cost)});
  }
  for (size_t i = 0; i < rows.size(); ++i)
    for (const Score& metric : scores[i].metrics) rows[i].push_back(fmt::format("{:.2f}", 100 * metric.value));
  print_table(header, rows);
}

// A promise about answers bounds no metric of rare classes: said where one fell by much more than was asked for.
void say_losses(const Common& common, const Calibration& calibration, const std::vector<PolicyScore>& scores,
                size_t rows) {
  for (size_t i = 0; i < calibration.outcomes.size(); ++i) {
    const BudgetOutcome& outcome = calibration.outcomes[i];
    for (size_t m = 0; m < scores[i + 1].metrics.size(); ++m) {
      const Score &full = scores.front().metrics[m], &early = scores[i + 1].metrics[m];
      if (!loses_much(full.value, early.value, outcome.epsilon, rows)) continue;
      notice(common,
             fmt::format("{} falls from {:.2f} to {:.2f} with the policy of {:g}%, on {} texts: what is promised "
                         "is about {} alone; ask for a smaller --max-drop or bring more rows",
                         name_of(full.metric), 100 * full.value, 100 * early.value, 100 * outcome.epsilon, rows,
                         name_of(calibration.entry.certificate->loss)));
    }
  }
}

// What is promised, in words. A guarantee in expectation never speaks of confidence.
void print_promise(const Calibration& calibration, const CalibrationData& data, double confidence) {
  const Certificate& certificate = *calibration.entry.certificate;
  const bool many = calibration.outcomes.size() > 1;
  fmt::print("\nbound: {} against full depth, {} ({}, {} texts)\n", name_of(certificate.loss),
             certificate.method == RiskMethod::crc
                 ? std::string("in expectation")
                 : fmt::format("with confidence {:g} %{}", 100 * confidence, many ? " for all budgets together" : ""),
             name_of(certificate.method), data.certify.rows);
  fmt::print("lost, layers{}: on {} other texts; temperatures and rule chosen on {} more\n",
             data.report.labelled() ? " and scores" : "", data.report.rows, data.fit.rows);
  if (calibration.trials.size() > 1) {
    std::vector<std::string> tried;
    for (const FamilyTrial& trial : calibration.trials)
      tried.push_back(fmt::format("{} {:.0f} %", trial.family, 100 * trial.cost_fraction));
    fmt::print("rules tried, and the layers each was expected to run: {}\n", fmt::join(tried, ", "));
  }
}

void run(const Common& common, const CalibrateFlags& flags) {
  if (is_trace_file(flags.run.model) && flags.out.empty()) {
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  }
  // Locked before the model runs, so that a second calibration learns at once that it comes too late.
  const fs::path path = flags.out.empty() ? policy_path(Checkpoint::open(flags.run.model)) : fs::path(flags.out);
  const PolicyLock lock(path);
  const Measured measured = measured_for(common, flags);
  require_policy_precision(measured.trace);
  const CalibrationData data = split_for_calibration(measured.trace, flags.seed);
  const Calibration calibration = calibrate(data, plan_of(flags, measured));
  keep_policy(lock, path, measured, calibration.entry);

  const std::vector<PolicyScore> scores = report_scores(measured, data, calibration);
  say_losses(common, calibration, scores, data.report.rows);
  if (common.json) {
    OrderedJson out;
    out["out"] = path.string();
    out["rows"] = {{"fit", data.fit.rows}, {"certify", data.certify.rows}, {"report", data.report.rows}};
    out["points"] = OrderedJson::array();
    for (size_t i = 0; i < calibration.outcomes.size(); ++i)
      out["points"].push_back(outcome_json(calibration.outcomes[i], scores[i + 1]));
    out["full_depth"] = {{"report_metrics", metrics_json(scores.front())}};
    out["families"] = OrderedJson::array();
    for (const FamilyTrial& trial : calibration.trials)
      out["families"].push_back({{"family", trial.family}, {"cost_fraction", trial.cost_fraction}});
    return print_json(out);
  }
  print_outcomes(calibration, scores);
  print_promise(calibration, data, flags.confidence);
  fmt::print("wrote {}\n", path.string());
}

}  // namespace

void add_calibrate(CommandLine& line) {
  const auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* verb =
      add_verb(line, "calibrate", "Turn a budget into a certified policy",
               {"exeunt calibrate runs/my --max-drop 2%",
                "exeunt calibrate models/sst2 --task SST-2 --data glue_data --max-drop 1% --confidence 0.95",
                "exeunt calibrate models/topics --unlabelled texts.csv --max-drop 0.5% --max-drop 1% --max-drop 2%",
                "exeunt calibrate x.safetensors --max-drop 1% --out policy.json"},
               [flags, &common = line.common] { run(common, *flags); });
  add_run_flags(*verb, flags->run, Takes::model_or_trace);
  add_trace_flags(*verb, flags->run);
  verb->add_option("--max-drop", flags->budgets, "Largest loss against full depth; repeat for more, certified together")
      ->allow_extra_args(false)
      ->type_name("SHARE")
      ->capture_default_str();
  verb->add_option("--confidence", flags->confidence, "Probability that the promise holds, over the draw of the data")
      ->check(CLI::Range(0.5, 0.999999))
      ->capture_default_str();
  verb->add_option("--policy", flags->families,
                   "Family of rules to choose from (entropy, patience …); repeat for more; all that fit if left out")
      ->allow_extra_args(false)
      ->type_name("FAMILY");
  verb->add_option("--exits", flags->exits, "Layers whose exits are used, with commas; all if left out");
  verb->add_option("--loss", flags->loss,
                   "What a loss is: disagreement (another answer than at full depth), zero_one_drop (a right answer "
                   "lost) or abs_diff "
                   "(of numbers, their default)");
  verb->add_option("--method", flags->method,
                   "How the bound is computed: ltt-binomial (for disagreement), ltt-hb, wsr (for the others), or crc "
                   "(a guarantee in expectation)");
  verb->add_option("--unlabelled", flags->unlabelled,
                   "File of texts without labels, beside or instead of --data: disagreement needs none")
      ->type_name("FILE");
  verb->add_option("--seed", flags->seed, "Draws the fit, certify and report parts")->capture_default_str();
  verb->add_flag("--no-temperatures", flags->no_temperatures, "Fit no temperature per exit");
  verb->add_option("--out", flags->out, "Policy file; the model's own policy.json if left out");
}

}  // namespace exeunt::apps
