// SPDX-License-Identifier: Apache-2.0
// `exeunt report`: compares runs in one HTML file, and writes CSV, JSON and a Vega-Lite specification.
#include "lab/report/report.h"

#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "lab/cli/setting_flags.h"
#include "lab/cli/verbs.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  ReportPlan plan;
  OldSettingFlags settings;
  std::string out = "report.html";
  bool no_published = false;
};

void run_report(const Common& common, const ReportFlags& flags) {
  ReportPlan plan = flags.plan;
  plan.published = !flags.no_published;
  plan.settings = settings_of_flags(common, flags.settings);
  const bool scores = plan.runs.front().ends_with(".json");
  const Report report = scores ? leaderboard(plan.runs, plan.title) : report_runs(plan, observer(common));
  const fs::path html = flags.out;
  const fs::path stem = html.parent_path() / html.stem();
  write_atomically(html, report.html);
  write_atomically(stem.string() + ".csv", report.csv);
  write_atomically(stem.string() + ".json", json_text(report.json));
  if (!report.vega_lite.is_null()) write_atomically(stem.string() + ".vl.json", json_text(report.vega_lite));
  if (common.json) return print_json({{"out", flags.out}, {"bytes", report.html.size()}, {"runs", plan.runs.size()}});
  fmt::print("wrote {} ({} KB): {} run{}; open it in a browser\n", flags.out, report.html.size() / 1024,
             plan.runs.size(), plan.runs.size() == 1 ? "" : "s");
}

}  // namespace

void add_report(CommandLine& line) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* verb = add_verb(
      line, "report", "Compare runs in one HTML report",
      {"exeunt report runs/my", "exeunt report sst2-exeunt.safetensors sst2-elasticbert.safetensors --out report.html",
       "exeunt report models/sst2 --task SST-2 --data glue_data --policy entropy:0.1"},
      [flags, &common = line.common] { run_report(common, *flags); });
  verb->add_option("RUN", flags->plan.runs,
                   "Models, training runs or trace files; or ELUE's scores, for its leaderboard")
      ->required();
  add_text_flags(*verb, flags->plan.measure);
  add_precision_flags(*verb, flags->plan.measure);
  add_score_flags(line, *verb, flags->plan.measure);
  verb->add_option("--out", flags->out, "HTML file; .csv, .json and .vl.json are written beside it")
      ->capture_default_str();
  verb->add_option("--policy", flags->plan.policies,
                   "Policy whose exits and examples are shown, for all runs, or a policy.json for the run with its "
                   "weights; repeatable")
      ->default_str("the model's own")
      ->allow_extra_args(false);
  add_old_setting_flags(*verb, flags->settings, "--settings");
  verb->add_option("--title", flags->plan.title, "Title of the page")->capture_default_str();
  verb->add_flag("--no-published", flags->no_published, "Omit the papers' published figures");
}

}  // namespace exeunt::apps
