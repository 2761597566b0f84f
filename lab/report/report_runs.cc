// SPDX-License-Identifier: Apache-2.0
#include "lab/report/report_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/certify/new_rows.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/policy/policy_file.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// Texts by row, for the examples; nothing where no data are named.
TextOf texts_of(const ReportPlan& plan) {
  if (plan.measure.data.path.empty()) return {};
  auto texts = std::make_shared<std::map<int64_t, std::string>>();
  DataSource data = plan.measure.data;
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
const std::string& named_for(const ReportPlan& plan, const ExitTrace& trace) {
  static const std::string none;
  const std::string* chosen = &none;
  for (const std::string& policy : plan.policies) {
    const bool file = policy.ends_with(".json");
    if (file && read_policy_file(policy).weights == trace.info.weights) return policy;
    if (!file) chosen = &policy;
  }
  return *chosen;
}

// What the data of a run are called where they are of no known task.
std::string data_name_of(const ReportPlan& plan, const Measured& run, const std::string& name) {
  if (!plan.measure.data.path.empty()) return fs::path(plan.measure.data.path).filename().string();
  if (run.model && path_exists(run.model->folder() / kHeldOutFile)) return fmt::format("held-out rows of {}", name);
  return fmt::format("data of {}", name);
}

void refuse_unused_files(const ReportPlan& plan, const std::vector<Measured>& runs) {
  for (const std::string& policy : plan.policies) {
    if (!policy.ends_with(".json")) continue;
    const std::string weights = read_policy_file(policy).weights;
    const bool used =
        std::any_of(runs.begin(), runs.end(), [&](const Measured& run) { return run.trace.info.weights == weights; });
    if (!used) throw Error(Code::bad_file, fmt::format("{}: made for weights that no run has", policy));
  }
}

}  // namespace

Report report_runs(const ReportPlan& plan, const Observer& observer) {
  std::vector<Measured> measured;
  for (const std::string& name : plan.runs) {
    MeasureOptions one = plan.measure;
    one.model = name;
    measured.push_back(measure(one, observer));
    if (const std::string text = learned_text(measured.back().trace); !text.empty())
      observer.notice(fmt::format("{}: {}", name, text));
  }
  refuse_unused_files(plan, measured);
  const TextOf texts = texts_of(plan);
  std::vector<ReportRun> runs;
  for (size_t i = 0; i < measured.size(); ++i) {
    const ExitTrace& trace = measured[i].trace;
    const std::string& policy = named_for(plan, trace);
    std::optional<ResolvedPolicy> chosen;
    if (measured[i].model || !policy.empty()) chosen = resolve_measured(measured[i], {.policy = policy}, observer);
    std::vector<PolicySpec> settings = plan.settings(trace);
    if (chosen && chosen->entry)
      for (PolicySpec& setting : settings) setting = chosen->entry->complete(setting);
    runs.push_back({.name = name_of_run(plan.runs[i]),
                    .trace = &trace,
                    .scoring = scorer_options(measured[i]),
                    .primary = primary_metric(trace),
                    .policy = chosen ? std::optional(chosen->policy) : std::nullopt,
                    .settings = std::move(settings),
                    .certificate = chosen ? chosen->certificate : std::nullopt,
                    .promise = chosen ? chosen->promise : "",
                    .text = texts,
                    .data = data_name_of(plan, measured[i], name_of_run(plan.runs[i]))});
  }
  ReportOptions options{.title = plan.title, .published = plan.published, .environment = {}};
  const CpuFeatures cpu = cpu_features();
  options.environment = {{"exeunt", std::string(version())}, {"made", now_rfc3339()}, {"processor", cpu.name}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const TraceInfo& info = runs[i].trace->info;
    options.environment.emplace_back(
        runs[i].name,
        fmt::format("task {}, split {}, {} texts, precision {}, engine {}, weights {}", info.task, info.split,
                    runs[i].trace->rows, info.precision, info.engine, info.weights.substr(0, 16)));
  }
  Report report = make_report(runs, options);
  if (report.html.size() > kMaxReportBytes) {
    throw Error(Code::failure,
                fmt::format("the report would take {} bytes, want at most {}", report.html.size(), kMaxReportBytes),
                "pass fewer runs or settings");
  }
  return report;
}

}  // namespace exeunt
