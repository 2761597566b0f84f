// SPDX-License-Identifier: Apache-2.0
// `exeunt calibrate`: a budget and a confidence become a certified policy.
#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/calibrate_model.h"

namespace exeunt::apps {
namespace {

struct CalibrateFlags {
  CalibrateOptions calibrate;
  std::vector<std::string> budgets{"1%"};
  std::string exits, loss, method;
  double confidence = 0.95;
  bool no_temperatures = false;
};

CalibrationPlan plan_of(const CalibrateFlags& flags) {
  CalibrationPlan plan = flags.calibrate.plan;
  plan.budgets.clear();
  for (const std::string& text : flags.budgets) {
    for (const std::string& one : comma_list(text)) plan.budgets.push_back(share_of(one, "--max-drop"));
  }
  std::sort(plan.budgets.begin(), plan.budgets.end());
  plan.delta = 1 - flags.confidence;
  if (!flags.loss.empty()) plan.loss = loss_named(flags.loss);
  if (!flags.method.empty()) plan.method = method_named(flags.method);
  plan.exits = layer_list(flags.exits, "--exits");
  plan.temperatures = !flags.no_temperatures;
  return plan;
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
  std::vector<std::string> header{"budget", "policy", "bound", "loss", "fewer layers"};
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

// The guarantee, in words. One in expectation never mentions confidence.
void print_promise(const Calibration& calibration, const CalibrationData& data, double confidence) {
  const Certificate& certificate = *calibration.entry.certificate;
  const bool many = calibration.outcomes.size() > 1;
  fmt::print("\nbound: {} against full depth, {} ({}, {} texts)\n", name_of(certificate.loss),
             certificate.method == RiskMethod::crc
                 ? std::string("in expectation")
                 : fmt::format("with confidence {:g} %{}", 100 * confidence, many ? " for all budgets together" : ""),
             name_of(certificate.method), data.certify.rows);
  fmt::print("loss, layers{}: measured on {} other texts; temperatures and rule chosen on {} more\n",
             data.report.labelled() ? " and scores" : "", data.report.rows, data.fit.rows);
  if (calibration.trials.size() > 1) {
    std::vector<std::string> tried;
    for (const FamilyTrial& trial : calibration.trials)
      tried.push_back(fmt::format("{} {:.0f} %", trial.family, 100 * trial.cost_fraction));
    fmt::print("rules tried, with the expected share of layers: {}\n", fmt::join(tried, ", "));
  }
}

void run(const Common& common, const CalibrateFlags& flags) {
  CalibrateOptions options = flags.calibrate;
  options.plan = plan_of(flags);
  const auto [path, data, calibration, scores] = calibrate_model(options, observer(common));
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
      add_verb(line, "calibrate", "Certify an exit policy for a loss budget",
               {"exeunt calibrate runs/my --max-drop 2%",
                "exeunt calibrate models/sst2 --task SST-2 --data glue_data --max-drop 1% --confidence 0.95",
                "exeunt calibrate models/topics --unlabelled texts.csv --max-drop 0.5% --max-drop 1% --max-drop 2%",
                "exeunt calibrate models/sst2 --from-server shadows.jsonl --max-drop 2%",
                "exeunt calibrate x.safetensors --max-drop 1% --out policy.json"},
               [flags, &common = line.common] { run(common, *flags); });
  add_run_flags(*verb, flags->calibrate.run, Takes::model_or_trace);
  add_trace_flags(*verb, flags->calibrate.run);
  verb->add_option("--max-drop", flags->budgets, "Maximum loss against full depth; repeatable, all certified together")
      ->allow_extra_args(false)
      ->type_name("SHARE")
      ->capture_default_str();
  verb->add_option("--confidence", flags->confidence, "Confidence of the certificate, over the draw of the data")
      ->check(CLI::Range(0.5, 0.999999))
      ->capture_default_str();
  verb->add_option("--policy", flags->calibrate.plan.families,
                   "Exit rule to choose from (entropy, patience …); repeatable")
      ->default_str("all that fit")
      ->allow_extra_args(false)
      ->type_name("FAMILY");
  verb->add_option("--exits", flags->exits, "Comma-separated layers whose exits are used")->default_str("all");
  verb->add_option("--loss", flags->loss,
                   "Loss function: disagreement (an answer that differs from full depth), zero_one_drop (a correct "
                   "answer lost) or abs_diff (regression)");
  verb->add_option(
      "--method", flags->method,
      "Risk bound: ltt-binomial (default for disagreement), ltt-hb, wsr (default otherwise) or crc (in expectation)");
  verb->add_option("--unlabelled", flags->calibrate.unlabelled,
                   "File of unlabelled texts, in addition to or instead of --data: disagreement needs no labels")
      ->type_name("FILE");
  CLI::Option* from_server =
      verb->add_option("--from-server", flags->calibrate.run.from_server,
                       "Shadow log of 'exeunt serve --shadow-log': certify from the traffic it drew, without labels")
          ->type_name("FILE");
  for (const char* other : {"--data", "--task", "--trace", "--unlabelled"})
    from_server->excludes(verb->get_option(other));
  verb->add_option("--seed", flags->calibrate.seed, "Seed of the split into fit, certify and report parts")
      ->capture_default_str();
  verb->add_flag("--no-temperatures", flags->no_temperatures, "Do not fit a temperature per exit");
  verb->add_option("--out", flags->calibrate.out, "Output policy file")->default_str("the model's policy.json");
}

}  // namespace exeunt::apps
