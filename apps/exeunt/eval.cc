// SPDX-License-Identifier: Apache-2.0
// `exeunt eval` and `exeunt sweep`: quality and cost of one policy, of every exit, or of many settings.
#include <chrono>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/elbert_stats.h"
#include "exeunt/eval/elue.h"
#include "exeunt/eval/sweep.h"
#include "exeunt/eval/views.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/sweep.h"

namespace exeunt::apps {
namespace {

struct EvalFlags {
  RunFlags run;
  std::string policy, csv;
  bool each_exit = false;
  std::vector<std::string> sweeps;
  std::string view, view_files, npy, stats, baseline;
};

std::string percent(double value) {
  return fmt::format("{:.2f}", 100 * value);
}

std::vector<std::string> metric_names(const std::vector<Score>& metrics) {
  std::vector<std::string> names;
  for (const Score& metric : metrics) names.emplace_back(name_of(metric.metric));
  return names;
}

void print_exits(const std::vector<ExitScore>& exits) {
  std::vector<std::string> header{"exit after"};
  for (const std::string& name : metric_names(exits.front().metrics)) header.push_back(name);
  header.insert(header.end(), {"agrees with last", "calibration error"});
  std::vector<std::vector<std::string>> rows;
  for (const ExitScore& exit : exits) {
    std::vector<std::string> row{fmt::format("{}", exit.layer)};
    for (const Score& metric : exit.metrics) row.push_back(percent(metric.value));
    row.insert(row.end(), {percent(exit.agreement), percent(exit.calibration_error)});
    rows.push_back(std::move(row));
  }
  print_table(header, rows);
}

void print_score(const PolicyScore& score, const std::vector<int>& layers) {
  std::vector<std::pair<std::string, std::string>> rows{{"policy", score.policy}};
  for (const Score& metric : score.metrics) rows.emplace_back(name_of(metric.metric), percent(metric.value));
  rows.emplace_back("agrees with full depth", percent(score.agreement));
  rows.emplace_back("average layers", fmt::format("{:.2f} of {}", score.cost.average_layers, layers.back()));
  rows.emplace_back("speed-up ratio", fmt::format("{:.2f}x fewer layers", score.cost.speedup_ratio));
  if (score.mflops) rows.emplace_back("MFLOPs a text", fmt::format("{:.1f}", *score.mflops));
  print_pairs(rows);
  fmt::print("\n");
  std::vector<std::vector<std::string>> table;
  int64_t texts = 0;
  for (const int64_t count : score.histogram) texts += count;
  for (size_t exit = 0; exit < layers.size(); ++exit) {
    const double share = static_cast<double>(score.histogram[exit]) / static_cast<double>(std::max<int64_t>(1, texts));
    std::string bar;
    for (int i = 0; i < static_cast<int>(share * 40 + 0.5); ++i) bar += "█";
    table.push_back({fmt::format("{}", layers[exit]), fmt::format("{}", score.histogram[exit]), percent(share), bar});
  }
  print_table({"left after", "texts", "%", ""}, table);
}

void run_eval(const Common& common, const EvalFlags& flags) {
  const Measured measured = measure(common, flags.run);
  Scorer scorer(measured.trace, scorer_options(measured));
  const PolicyScore score = scorer.score(choose_policy(common, measured, flags.policy).policy);
  const std::vector<ExitScore> exits = flags.each_exit ? scorer.each_exit() : std::vector<ExitScore>{};
  if (common.json) {
    OrderedJson out = score_json(score);
    out["rows"] = measured.trace.rows;
    if (flags.each_exit) out["each_exit"] = exit_scores_json(exits);
    return print_json(out);
  }
  if (flags.each_exit) {
    print_exits(exits);
    fmt::print("\n");
  }
  print_score(score, measured.trace.info.layers);
}

void print_sweep(const std::vector<SweepRow>& rows) {
  std::vector<std::string> header{"policy"};
  for (const std::string& name : metric_names(rows.front().score.metrics)) header.push_back(name);
  header.insert(header.end(), {"agreement", "layers", "speed-up", "MFLOPs", "best"});
  std::vector<std::vector<std::string>> table;
  for (const SweepRow& row : rows) {
    const PolicyScore& s = row.score;
    std::vector<std::string> cells{s.policy};
    for (const Score& metric : s.metrics) cells.push_back(percent(metric.value));
    cells.insert(cells.end(), {percent(s.agreement), fmt::format("{:.2f}", s.cost.average_layers),
                               fmt::format("{:.2f}", s.cost.speedup_ratio),
                               s.mflops ? fmt::format("{:.1f}", *s.mflops) : "-", row.on_front ? "*" : ""});
    table.push_back(std::move(cells));
  }
  print_table(header, table);
}

// The runs as the originals' programs would have made them. The time is that of the replay: no model ran.
std::vector<ViewRun> view_runs(const ExitTrace& trace, const std::vector<PolicySpec>& policies,
                               const std::vector<SweepRow>& rows) {
  std::vector<ViewRun> runs;
  for (size_t i = 0; i < policies.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Departures departures = replay(trace, policies[i]);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ViewRun run{.policy = policies[i],
                .score = rows[i].score,
                .layers = trace.info.layers,
                .exit_layers = {},
                .task = trace.info.task,
                .checkpoint = {},
                .seconds = seconds.count()};
    for (const uint8_t exit : departures.exit) run.exit_layers.push_back(trace.info.layers[exit]);
    runs.push_back(std::move(run));
  }
  return runs;
}

// ELUE's score of the rows against static models of the same shape.
void print_elue(const EvalFlags& flags, const ExitTrace& trace, const std::vector<SweepRow>& rows) {
  const BaselineTable table = read_baseline_table(flags.baseline);
  const std::string task = trace.info.task.substr(trace.info.task.find('/') + 1);
  const auto baseline = table.tasks.find(task);
  if (baseline == table.tasks.end()) {
    throw Error(Code::bad_file, fmt::format("{}: no baseline for task '{}'", flags.baseline, task));
  }
  std::vector<CostPoint> points;
  for (const SweepRow& row : rows) {
    if (!row.score.mflops)
      throw Error(Code::usage, "--baseline needs MFLOPs: got a trace alone", "name the model and its data instead");
    points.push_back({*row.score.mflops, 100 * primary_of(row.score.metrics, primary_metric(trace))});
  }
  const ElueScore score = elue_score(points, baseline->second);
  fmt::print("\nELUE score {:.2f}, area {:.2f} against {}\n", score.score, score.area, table.source);
  if (score.outside > 0)
    fmt::print("{} points lie outside the baseline's costs and are held to its ends\n", score.outside);
}

void run_sweep(const Common& common, const EvalFlags& flags) {
  std::vector<PolicySpec> policies;
  for (const std::string& text : flags.sweeps) {
    for (PolicySpec& policy : parse_sweep(text)) policies.push_back(std::move(policy));
  }
  const Measured measured = measure(common, flags.run);
  Scorer scorer(measured.trace, scorer_options(measured));
  const std::vector<SweepRow> rows = sweep(scorer, policies, primary_metric(measured.trace));
  if (!flags.csv.empty()) write_atomically(flags.csv, sweep_csv(rows));
  if (!flags.npy.empty())
    write_deebert_arrays(flags.npy, view_runs(measured.trace, policies, rows), scorer.each_exit());
  if (!flags.stats.empty()) write_elbert_stats(flags.stats, measured.trace, replay(measured.trace, policies.front()));
  if (!flags.view.empty()) {
    const View view = view_named(flags.view);
    const std::vector<ViewRun> runs = view_runs(measured.trace, policies, rows);
    for (const ViewRun& run : runs) fmt::print("{}", view_lines(view, run));
    if (!flags.view_files.empty()) write_view_files(view, flags.view_files, runs);
    return;
  }
  if (common.json) {
    OrderedJson out;
    out["rows"] = sweep_json(rows);
    return print_json(out);
  }
  print_sweep(rows);
  if (!flags.baseline.empty()) print_elue(flags, measured.trace, rows);
}

}  // namespace

void add_eval(CommandLine& line) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* verb = add_verb(line, "eval", "Quality and cost of a policy on a data set",
                            {"exeunt eval models/sst2 --task SST-2 --data glue_data --policy entropy:0.2",
                             "exeunt eval sst2.safetensors --each-exit --json"},
                            [flags, &common = line.common] { run_eval(common, *flags); });
  add_run_flags(*verb, flags->run, Required::yes);
  verb->add_option("--policy", flags->policy,
                   "Exit policy, e.g. entropy:0.2, patience:6, layer:4, full; the model's own if left out");
  verb->add_flag("--each-exit", flags->each_exit, "Show the score of every exit, too");
}

void add_sweep(CommandLine& line) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* verb =
      add_verb(line, "sweep", "Quality and cost of many settings, from one pass",
               {"exeunt sweep models/sst2 --task SST-2 --data glue_data --policy 'entropy:0..0.6/0.05'",
                "exeunt sweep x.safetensors --policy 'entropy:0.05|0.1|0.2' --policy 'patience:3..8' --csv sweep.csv"},
               [flags, &common = line.common] { run_sweep(common, *flags); });
  add_run_flags(*verb, flags->run, Required::yes);
  verb->add_option("--policy", flags->sweeps,
                   "Settings: ranges (entropy:0..0.7/0.05) and lists (patience:3|4|5); repeat for more")
      ->required();
  verb->add_option("--csv", flags->csv, "Write the rows as CSV, too");
  verb->add_option("--npy", flags->npy, "Folder for DeeBERT's arrays: each_layer.npy and entropy_{S}.npy");
  verb->add_option("--stats", flags->stats, "Folder for ELBERT's statistics, of the first setting");
  CLI::Option* view = verb->add_option(
      "--view", flags->view, "Print an original's own lines instead: deebert, pabee, elasticbert, romebert, elbert");
  verb->add_option("--view-files", flags->view_files, "Folder for the files that original writes")->needs(view);
  verb->add_option("--baseline", flags->baseline, "Table of static models to score against as ELUE does");
}

}  // namespace exeunt::apps
