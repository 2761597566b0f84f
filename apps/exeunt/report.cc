// SPDX-License-Identifier: Apache-2.0
// `exeunt report`: runs side by side in one HTML file, with CSV, JSON and a Vega-Lite specification beside it.
#include "exeunt/eval/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/setting_flags.h"
#include "exeunt/base/clock.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/runtime/cpu/features.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<std::string> runs;
  SettingFlags settings;
  std::vector<std::string> policies;
  std::string out = "report.html", title = "Exeunt report";
  RunFlags run;  // data for runs that are models, and for the texts of examples
  bool no_published = false;
};

// Texts by row, for the examples; nothing where no data are named.
TextOf texts_of(const ReportFlags& flags) {
  if (flags.run.data.data.empty()) return {};
  auto texts = std::make_shared<std::map<int64_t, std::string>>();
  DataFlags data = flags.run.data;
  data.columns.label.clear();  // the texts alone
  for (const Example& example : load_data(data).examples) {
    (*texts)[example.index] = example.pair ? example.text + " ⟂ " + *example.pair : example.text;
  }
  return [texts](int64_t index) {
    const auto found = texts->find(index);
    return found == texts->end() ? std::string{} : found->second;
  };
}

std::string name_of_run(const std::string& path) {
  const fs::path clean = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  const std::string name = clean.filename().string();
  return name.ends_with(".safetensors") ? name.substr(0, name.size() - std::string_view(".safetensors").size()) : name;
}

// A policy file speaks for the run whose weights it names; a policy's text for the others.
const std::string& policy_for(const ReportFlags& flags, const ExitTrace& trace) {
  static const std::string none;
  const std::string* chosen = &none;
  for (const std::string& policy : flags.policies) {
    const bool file = policy.ends_with(".json");
    if (file && read_policy_file(policy).weights == trace.info.weights) return policy;
    if (!file) chosen = &policy;
  }
  return *chosen;
}

void refuse_unused_files(const ReportFlags& flags, const std::vector<Measured>& runs) {
  for (const std::string& policy : flags.policies) {
    if (!policy.ends_with(".json")) continue;
    const std::string weights = read_policy_file(policy).weights;
    const bool used =
        std::any_of(runs.begin(), runs.end(), [&](const Measured& run) { return run.trace.info.weights == weights; });
    if (!used) throw Error(Code::bad_file, fmt::format("{}: made for weights that no run has", policy));
  }
}

void run(const Common& common, const ReportFlags& flags) {
  const std::vector<PolicySpec> settings = named_settings(common, flags.settings);
  std::vector<Measured> measured;
  for (const std::string& name : flags.runs) {
    RunFlags one = flags.run;
    one.model = name;
    measured.push_back(measure(common, one));
  }
  refuse_unused_files(flags, measured);
  const TextOf texts = texts_of(flags);
  std::vector<ReportRun> runs;
  for (size_t i = 0; i < measured.size(); ++i) {
    const ExitTrace& trace = measured[i].trace;
    const std::string& policy = policy_for(flags, trace);
    std::optional<ChosenPolicy> chosen;
    if (measured[i].model || !policy.empty()) chosen = choose_policy(common, measured[i], policy);
    runs.push_back({.name = name_of_run(flags.runs[i]),
                    .trace = &trace,
                    .scoring = scorer_options(measured[i]),
                    .primary = primary_metric(trace),
                    .policy = chosen ? std::optional(chosen->policy) : std::nullopt,
                    .settings = settings_or_default(settings, flags.settings, trace),
                    .certificate = chosen ? chosen->certificate : std::nullopt,
                    .text = texts});
  }
  ReportOptions options{.title = flags.title, .published = !flags.no_published, .environment = {}};
  const CpuFeatures cpu = cpu_features();
  options.environment = {{"exeunt", std::string(version())}, {"made", now_rfc3339()}, {"processor", cpu.name}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const TraceInfo& info = runs[i].trace->info;
    options.environment.emplace_back(
        runs[i].name,
        fmt::format("task {}, split {}, {} texts, precision {}, engine {}, weights {}", info.task, info.split,
                    runs[i].trace->rows, info.precision, info.engine, info.weights.substr(0, 16)));
  }
  const Report report = make_report(runs, options);
  if (report.html.size() > kMaxReportBytes) {
    throw Error(Code::failure,
                fmt::format("the report would take {} bytes, want at most {}", report.html.size(), kMaxReportBytes),
                "name fewer runs or settings");
  }
  const fs::path html = flags.out;
  const fs::path stem = html.parent_path() / html.stem();
  write_atomically(html, report.html);
  write_atomically(stem.string() + ".csv", report.csv);
  write_atomically(stem.string() + ".json", json_text(report.json));
  write_atomically(stem.string() + ".vl.json", json_text(report.vega_lite));
  if (common.json) return print_json({{"out", flags.out}, {"bytes", report.html.size()}, {"runs", runs.size()}});
  fmt::print("wrote {} ({} KB): {} run{}; open it in a browser\n", flags.out, report.html.size() / 1024, runs.size(),
             runs.size() == 1 ? "" : "s");
}

}  // namespace

void add_report(CommandLine& line) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* verb = add_verb(
      line, "report", "Show runs side by side in one HTML file",
      {"exeunt report runs/my", "exeunt report sst2-exeunt.safetensors sst2-elasticbert.safetensors --out report.html",
       "exeunt report models/sst2 --task SST-2 --data glue_data --policy entropy:0.1"},
      [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("RUN", flags->runs, "Models, runs of trainings, or trace files")->required();
  add_text_flags(*verb, flags->run);
  add_precision_flags(*verb, flags->run);
  add_score_flags(*verb, flags->run);
  verb->add_option("--out", flags->out, "HTML file; .csv, .json and .vl.json are written beside it")
      ->capture_default_str();
  verb->add_option(
          "--policy", flags->policies,
          "Policy whose exits and examples are shown, for all runs, or a policy.json for the run of its weights; "
          "repeat for more; the model's own if left out")
      ->allow_extra_args(false);
  add_setting_flags(*verb, flags->settings, "--settings");
  verb->add_option("--title", flags->title, "Heading of the page")->capture_default_str();
  verb->add_flag("--no-published", flags->no_published, "Leave out the papers' published figures");
}

}  // namespace exeunt::apps
