// SPDX-License-Identifier: Apache-2.0
// `exeunt calibrate`: a budget and a confidence become a certified policy.
#include <memory>

#include "apps/exeunt/calibrate_output.h"
#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/policy/shadow_log.h"

namespace exeunt::apps {
namespace {

struct CalibrateFlags {
  CalibrateOptions calibrate;
  BudgetFlags budget{.budgets = {"1%"}};
  std::string exits, loss, decide, max_false, method;
  std::string unit;
  int keep_top = 0;
  bool no_temperatures = false, report = false, no_report = false, transfer = false;
};

CalibrationPlan plan_of(const CalibrateFlags& flags) {
  CalibrationPlan plan = flags.calibrate.plan;
  flags.budget.put_into(plan);
  if (!flags.loss.empty()) plan.loss = loss_named(flags.loss);
  if (!flags.decide.empty()) plan.loss = loss_named("decision:" + flags.decide);
  if (flags.keep_top > 0) plan.loss = loss_named(fmt::format("top:{}", flags.keep_top));
  if (!flags.max_false.empty()) {
    if (!plan.loss || *plan.loss != RiskLoss::missed)
      throw Error(Code::usage, "--max-false: got another loss, want --loss missed:LABEL", "it is the other side of it");
    plan.loss->max_false = share_of(flags.max_false, "--max-false");
  }
  if (!flags.method.empty()) plan.method = method_named(flags.method);
  if (!flags.unit.empty()) plan.unit = flags.unit == "requests" ? CertifiedUnit::requests : CertifiedUnit::texts;
  plan.exits = layer_list(flags.exits, "--exits");
  plan.temperatures = !flags.no_temperatures;
  return plan;
}

void run(const Common& common, const CalibrateFlags& flags) {
  CalibrateOptions options = flags.calibrate;
  options.plan = plan_of(flags);
  if (flags.report || flags.no_report) options.report = flags.report;
  if (!options.run.since.empty() && !is_time(options.run.since)) {
    throw Error(Code::usage, fmt::format("--since: got '{}', want a time of UTC", options.run.since),
                "for example 2026-03-01, or 2026-03-01T12:34:56Z");
  }
  if (!flags.budget.range.empty()) options.range = value_range(flags.budget.range, "--range");
  const Calibrated done =
      flags.transfer ? transfer_policy(options, observer(common)) : calibrate_model(options, observer(common));
  if (common.json) return print_json(calibrated_json(done));
  print_calibrated(done, common.verbose);
  if (options.out.empty()) fmt::print("next: exeunt serve {}\n", shell_word(options.run.model));
}

// Rows from elsewhere than --data: unlabelled texts, or the log of a server.
void add_source_flags(CLI::App& verb, CalibrateOptions& options) {
  verb.add_option(
      "--unlabelled", options.unlabelled,
      "Unlabelled texts (lines, CSV, TSV or JSONL), in addition to or instead of --data: disagreement needs no "
      "labels");
  CLI::Option* from_server =
      verb.add_option("--from-server", options.run.from_server,
                      "Shadow log of 'exeunt serve --shadow-log': certify from the traffic it drew, without labels");
  for (const char* other : {"--data", "--task", "--trace", "--unlabelled"})
    from_server->excludes(verb.get_option(other));
  verb.add_option("--since", options.run.since,
                  "Of that log, the texts from this time on: 2026-03-01 or 2026-03-01T12:34:56Z")
      ->needs(from_server)
      ->type_name("TIME");
  verb.add_option("--last", options.run.last, "Of that log, the last N texts")
      ->needs(from_server)
      ->excludes(verb.get_option("--since"))
      ->check(number_in(1, int64_t{1} << 40));
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
  add_cluster_flag(*verb, flags->calibrate.run.data.columns);
  add_trace_flags(*verb, flags->calibrate.run);
  verb->get_option("--precision")->default_str("a trace's own, else the fastest that keeps the promise");
  add_new_rows_flag(*verb, flags->calibrate.run);
  add_budget_flags(*verb, flags->budget, "Maximum loss against full depth; repeatable, all certified together");
  verb->get_option("--range")->default_str("the model's, else that of the rows that choose");
  verb->add_option("--policy", flags->calibrate.plan.families,
                   "Exit rule to choose from (entropy, patience …); repeatable")
      ->default_str("all that fit")
      ->allow_extra_args(false)
      ->type_name("FAMILY");
  verb->add_option("--exits", flags->exits, "Comma-separated layers whose exits are used")->default_str("all");
  CLI::Option* loss = verb->add_option("--loss", flags->loss, loss_help());
  verb->add_option("--max-false", flags->max_false,
                   "With --loss missed:LABEL: largest share of the other texts that get the label");
  verb->add_option("--decide", flags->decide,
                   "Promise a decision, not the answer: '>=T' of a value, 'LABEL>=T' of a label's score")
      ->excludes(loss);
  verb->add_option("--keep-top", flags->keep_top,
                   "Promise that the K best candidates of a question stay its K best; of pairs, or with --cluster")
      ->excludes(loss)
      ->excludes(verb->get_option("--decide"))
      ->type_name("K")
      ->check(number_in(1, int64_t{1} << 20));
  add_profile_flag(*verb, flags->calibrate.run);
  verb->get_option("--profile")
      ->description("Times to choose the precision by, of 'exeunt bench --save'")
      ->default_str("measured now");
  verb->add_option(
      "--method", flags->method,
      "Risk bound: ltt-binomial (default for disagreement), ltt-hb, wsr (default otherwise) or crc (in expectation)");
  add_source_flags(*verb, flags->calibrate);
  verb->add_option(
          "--unit", flags->unit,
          "What the promise counts: requests, of which the rows are a random sample, or texts (equal ones once)")
      ->check(one_of({"texts", "requests"}))
      ->default_str("requests; texts for those that training held out");
  verb->add_option("--group", flags->calibrate.group,
                   "Certify each group, too: label (without gold, the full-depth answer), length (in quarters), exit "
                   "(at twice --max-drop) or a column of --data");
  add_thresholds_flag(*verb, flags->calibrate.thresholds)
      ->description("Several labels: fit those with the best F1 of each label on the rows that choose, or set them: " +
                    std::string(kThresholdForms));
  CLI::Option* report = verb->add_flag(
      "--report", flags->report,
      "Keep rows that measure the result, and certify on 60 % instead of 80 %; the default of 1,500 rows "
      "and more");
  verb->add_flag("--no-report", flags->no_report, "Keep none: faster policies, no fresh figures")->excludes(report);
  verb->add_option("--seed", flags->calibrate.seed, "Seed of the split into fit, certify and report parts")
      ->capture_default_str();
  verb->add_flag("--no-temperatures", flags->no_temperatures, "Do not fit a temperature per exit");
  CLI::Option* transfer = verb->add_flag(
      "--transfer", flags->transfer, "Certify on this engine the policy that was certified on another, on these rows");
  for (const char* other :
       {"--max-drop", "--confidence", "--policy", "--exits", "--loss", "--max-false", "--decide", "--keep-top",
        "--method", "--unlabelled", "--unit", "--group", "--no-temperatures", "--range", "--profile", "--thresholds"})
    transfer->excludes(verb->get_option(other));
  add_verbose_flag(line, *verb);
  verb->add_option("--out", flags->calibrate.out, "Output policy file")->default_str("the model's policy.json");
}

}  // namespace exeunt::apps
