// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/sweep_output.h"

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"

namespace exeunt::apps {
namespace {

// One row per checkpoint, one column per setting; the best of each setting is marked.
void print_checkpoints(const std::vector<Swept>& all, Metric primary) {
  std::vector<std::string> header{"checkpoint"};
  for (const SweepRow& row : all.front().rows) header.push_back(row.score.policy);
  std::vector<std::vector<std::string>> table;
  const Swept* best = nullptr;
  size_t best_setting = 0;
  for (const Swept& one : all) {
    std::vector<std::string> cells{one.checkpoint};
    for (size_t i = 0; i < one.rows.size(); ++i) {
      const double value = quality_of(one.rows[i].score, primary);
      cells.push_back(percent(value) + (one.best[i] ? " *" : "  "));
      if (one.best[i] && (best == nullptr || value > quality_of(best->rows[best_setting].score, primary))) {
        best = &one;
        best_setting = i;
      }
    }
    table.push_back(std::move(cells));
  }
  print_table(header, table);
  const bool gold = !all.front().rows.front().score.metrics.empty();
  fmt::print("\n{} in percent; * marks the best checkpoint of a setting\n",
             gold ? std::string(name_of(primary)) : "agreement with " + all.front().measured->trace.reference_name());
  if (best == nullptr) return;
  const PolicyScore& s = best->rows[best_setting].score;
  fmt::print("best of all: {} with {}: {} after {:.2f} layers on average ({:.2f}x fewer)\n", best->checkpoint, s.policy,
             percent(quality_of(s, primary)), s.cost.average_layers, s.cost.speedup_ratio);
}

}  // namespace

OrderedJson swept_json(const Swept& swept) {
  OrderedJson out;
  out["rows"] = sweep_json(swept.rows);
  if (swept.measured->profile) out["profile"] = swept.measured->profile->name();
  return out;
}

void print_rows(const Swept& swept) {
  const std::vector<SweepRow>& rows = swept.rows;
  const PolicyScore& first = rows.front().score;
  const bool mflops = first.mflops.has_value(), times = first.predicted_ms.has_value();
  const bool measured = first.measured_ms.has_value();
  std::vector<std::string> header{"policy"};
  for (const Score& metric : rows.front().score.metrics) header.emplace_back(name_of(metric.metric));
  header.insert(header.end(), {"agreement", "layers", "speed-up"});
  if (mflops) header.emplace_back("MFLOPs");
  if (times) header.emplace_back("ms");
  if (measured) header.insert(header.end(), {"clock ms", "clock speed-up"});
  header.emplace_back("best");
  std::vector<std::vector<std::string>> table;
  for (const SweepRow& row : rows) {
    const PolicyScore& s = row.score;
    std::vector<std::string> cells{s.policy};
    for (const Score& metric : s.metrics) cells.push_back(percent(metric.value));
    cells.insert(cells.end(), {percent(s.agreement), fmt::format("{:.2f}", s.cost.average_layers),
                               fmt::format("{:.2f}", s.cost.speedup_ratio)});
    if (mflops) cells.push_back(fmt::format("{:.1f}", *s.mflops));
    if (times) cells.push_back(fmt::format("{:.3f}", *s.predicted_ms));
    if (measured) {
      cells.push_back(fmt::format("{:.3f}", *s.measured_ms));
      cells.push_back(fmt::format("{:.2f}", *s.measured_speedup));
    }
    cells.emplace_back(row.on_front ? "*" : "");
    table.push_back(std::move(cells));
  }
  print_table(header, table);
  if (swept.measured->trace.info.precision != "fp32")
    fmt::print("\nagreement: with {}\n", swept.measured->trace.reference_name());
  if (times) fmt::print("\nms: predicted for {}\n", swept.measured->profile->name());
  if (measured)
    fmt::print("\nclock: per text, the texts of this sweep run one at a time under every policy, in turns\n");
}

std::vector<Swept> run_sweep(const Common& common, const SweepFlags& flags, const SettingsFor& settings) {
  std::vector<Swept> all;
  if (flags.all_checkpoints) {
    all = sweep_checkpoints(flags.run, settings, observer(common));
  } else {
    all.push_back(sweep_model(flags.run, settings, observer(common)));
  }
  if (flags.measure)
    for (Swept& swept : all) measure_times(flags.run, swept, observer(common));
  return all;
}

void show_checkpoints(const Common& common, const SweepFlags& flags, std::vector<Swept> all) {
  const Metric primary = primary_metric(all.front().measured->trace);
  mark_best(all, primary);
  if (!flags.csv.empty()) write_atomically(flags.csv, csv_of(checkpoints_json(all)));
  if (common.json) return print_json({{"rows", checkpoints_json(all)}});
  print_checkpoints(all, primary);
}

CLI::App* add_sweep_verb(CommandLine& line, SweepFlags& flags, std::function<void()> run) {
  CLI::App* verb = add_verb(
      line, "sweep", "Evaluate many exit policies from one forward pass",
      {"exeunt sweep runs/my", "exeunt sweep models/sst2 --task SST-2 --data glue_data --policy 'entropy:0..0.6/0.05'",
       "exeunt sweep x.safetensors --policy 'entropy:0.05|0.1|0.2' --policy 'patience:3..8' --csv sweep.csv",
       "exeunt sweep saved_models/MRPC --all-checkpoints --task MRPC --data glue_data --policy 'patience:3..8'"},
      std::move(run));
  add_run_flags(*verb, flags.run, Takes::model_or_trace);
  add_trace_flags(*verb, flags.run);
  add_score_flags(line, *verb, flags.run);
  verb->add_flag("--all-checkpoints", flags.all_checkpoints, "Sweep every checkpoint-N in MODEL and mark the best");
  verb->add_flag("--measure", flags.measure,
                 "Also run the texts under every policy, in turns, and report milliseconds and speed-up by the clock");
  verb->add_option("--csv", flags.csv, "Also write the rows as CSV");
  return verb;
}

}  // namespace exeunt::apps
