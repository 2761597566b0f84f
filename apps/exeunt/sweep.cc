// SPDX-License-Identifier: Apache-2.0
// `exeunt sweep`: quality and cost of many settings from one pass, of one model or of every checkpoint of a training.
#include "exeunt/eval/sweep.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/setting_flags.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/elue.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/originals/elbert_stats.h"
#include "exeunt/originals/views.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct SweepFlags {
  RunFlags run;
  SettingFlags settings;
  std::string csv, view, view_files, npy, stats, baseline;
  bool all_checkpoints = false, elue = false;
};

// One model under all settings.
struct Swept {
  std::string checkpoint;
  std::unique_ptr<const Measured> measured;  // stays in its place: the scorer's costs point to it
  std::vector<PolicySpec> policies;
  std::vector<SweepRow> rows;
  std::vector<ExitScore> exits;
};

Swept sweep_one(const Common& common, const SweepFlags& flags, const std::vector<PolicySpec>& named) {
  Swept out;
  out.measured = std::make_unique<const Measured>(measure(common, flags.run));
  const ExitTrace& trace = out.measured->trace;
  out.policies = settings_or_default(named, flags.settings, trace);
  Scorer scorer(trace, scorer_options(*out.measured));
  out.rows = sweep(scorer, out.policies, primary_metric(trace));
  out.exits = scorer.each_exit();
  return out;
}

// "SST-2" of "elue/SST-2".
std::string plain_task(const ExitTrace& trace) {
  return trace.info.task.substr(trace.info.task.find('/') + 1);
}

// A label's name, or the number of a regression.
std::string answer_text(const ExitTrace& trace, std::span<const float> logits) {
  if (trace.info.regression) return fmt::format("{}", logits[0]);
  return trace.info.labels[static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())];
}

// The runs as the originals' programs would have made them. The time is that of the replay: no model ran.
std::vector<ViewRun> view_runs(const Swept& swept) {
  const ExitTrace& trace = swept.measured->trace;
  std::vector<ViewRun> runs;
  for (size_t i = 0; i < swept.policies.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Departures departures = replay(trace, swept.policies[i], swept.measured->last);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ViewRun run{.policy = swept.policies[i],
                .score = swept.rows[i].score,
                .layers = trace.info.layers,
                .exit_layers = {},
                .task = plain_task(trace),
                .checkpoint = swept.checkpoint,
                .seconds = seconds.count()};
    run.test = trace.info.split == "test" && !trace.labelled();
    for (size_t row = 0; row < trace.rows; ++row) {
      run.exit_layers.push_back(trace.info.layers[departures.exit[row]]);
      if (run.test) run.answers.push_back(answer_text(trace, trace.at(row, departures.exit[row])));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void print_rows(const Swept& swept) {
  const std::vector<SweepRow>& rows = swept.rows;
  const bool mflops = rows.front().score.mflops.has_value(), times = rows.front().score.predicted_ms.has_value();
  std::vector<std::string> header{"policy"};
  for (const Score& metric : rows.front().score.metrics) header.emplace_back(name_of(metric.metric));
  header.insert(header.end(), {"agreement", "layers", "speed-up"});
  if (mflops) header.emplace_back("MFLOPs");
  if (times) header.emplace_back("ms");
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
    cells.emplace_back(row.on_front ? "*" : "");
    table.push_back(std::move(cells));
  }
  print_table(header, table);
  if (times) fmt::print("\nms: predicted for {}\n", swept.measured->profile->name());
}

struct ElueOutcome {
  std::string task;
  std::optional<ElueScore> score;  // nothing without a baseline for the task
  std::string source;              // of the baseline; empty = there is none for models of this shape
};

// ELUE's score of the rows against static models of the same shape.
ElueOutcome elue_of(const SweepFlags& flags, const Swept& swept) {
  const ExitTrace& trace = swept.measured->trace;
  ElueOutcome out{.task = plain_task(trace), .score = {}, .source = {}};
  std::vector<CostPoint> points;
  for (const SweepRow& row : swept.rows) {
    if (!row.score.mflops || row.score.metrics.empty()) {
      throw Error(Code::usage, "--elue needs MFLOPs and gold labels",
                  row.score.mflops ? "" : "name the model, with its data or with --trace");
    }
    points.push_back({*row.score.mflops, 100 * primary_of(row.score.metrics, primary_metric(trace))});
  }
  BaselineTable named;
  if (!flags.baseline.empty()) named = read_baseline_table(flags.baseline);
  const BaselineTable* table = flags.baseline.empty() ? shipped_baseline(swept.measured->model->spec()) : &named;
  if (table == nullptr) return out;
  out.source = table->source;
  const auto baseline = table->tasks.find(out.task);
  if (baseline != table->tasks.end()) {
    out.score = elue_score(points, baseline->second);
  } else if (!flags.baseline.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: no baseline for task '{}'", flags.baseline, out.task));
  }
  return out;
}

OrderedJson elue_json(const ElueOutcome& elue) {
  OrderedJson out;
  out["task"] = elue.task;
  out["score"] = elue.score ? OrderedJson(elue.score->score) : OrderedJson(nullptr);
  out["area"] = elue.score ? OrderedJson(elue.score->area) : OrderedJson(nullptr);
  out["outside"] = elue.score ? OrderedJson(elue.score->outside) : OrderedJson(nullptr);
  return out;
}

void print_elue(const Common& common, const ElueOutcome& elue, const Swept& swept) {
  if (!elue.score) {
    const ModelSpec& spec = swept.measured->model->spec();
    const std::string what = elue.source.empty() ? fmt::format("{} layers of {}", spec.layers, spec.hidden)
                                                 : fmt::format("{} in {}", elue.task, elue.source);
    notice(common, fmt::format("no ELUE score: there is no baseline for {}; name one with --baseline FILE", what));
    return;
  }
  fmt::print("\nELUE score {:.2f}, area {:.2f}{}\n", elue.score->score, elue.score->area,
             elue.source.empty() ? "" : " against " + elue.source);
  if (elue.score->outside > 0) {
    notice(common, fmt::format("{} of the points cost less or more than all of the baseline, and are held to its ends",
                               elue.score->outside));
  }
}

// checkpoint-N below the run's folder, by N, and the folder itself where it holds a model.
std::vector<fs::path> checkpoints_of(const std::string& run) {
  std::error_code error;
  if (!fs::is_directory(run, error))
    throw Error(Code::usage, fmt::format("{}: got no folder, want that of a training", run));
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "checkpoint-";
    if (!entry.is_directory() || !name.starts_with(kPrefix)) continue;
    const std::string number = name.substr(kPrefix.size());
    if (number.empty() || number.size() > 18 || number.find_first_not_of("0123456789") != std::string::npos) continue;
    found.emplace_back(std::stoll(number), entry.path());
  }
  if (found.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: got no folder checkpoint-N in it, want at least one", run),
                "leave out --all-checkpoints to sweep the model itself");
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> out;
  for (auto& [number, path] : found) out.push_back(std::move(path));
  if (path_exists(fs::path(run) / "config.json")) out.emplace_back(run);
  return out;
}

// Trainers do not always save the tokenizer with every checkpoint.
bool has_tokenizer(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "spiece.model", "30k-clean.model", "vocab.json"})
    if (path_exists(folder / name)) return true;
  return false;
}

std::vector<Swept> sweep_checkpoints(const Common& common, const SweepFlags& flags,
                                     const std::vector<PolicySpec>& named) {
  if (!flags.run.trace.empty()) throw Error(Code::usage, "--trace: one trace cannot speak for all checkpoints");
  std::vector<Swept> all;
  for (const fs::path& folder : checkpoints_of(flags.run.model)) {
    SweepFlags one = flags;
    one.run.model = folder.string();
    if (!has_tokenizer(folder)) one.run.tokenizer = flags.run.model;
    all.push_back(sweep_one(common, one, named));
    all.back().checkpoint = folder == fs::path(flags.run.model) ? "final" : folder.filename().string();
    if (all.back().policies != all.front().policies) {
      throw Error(Code::bad_file,
                  fmt::format("{}: has other exits or outputs than {}", folder.string(), all.front().checkpoint));
    }
  }
  return all;
}

// Checkpoints down, settings across, the best of each setting marked.
void print_checkpoints(const std::vector<CheckpointRows>& all, Metric primary) {
  std::vector<std::string> header{"checkpoint"};
  for (const SweepRow& row : all.front().rows) header.push_back(row.score.policy);
  std::vector<std::vector<std::string>> table;
  const CheckpointRows* best = nullptr;
  size_t best_setting = 0;
  for (const CheckpointRows& one : all) {
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
  fmt::print("\n{} in percent; * the best checkpoint with that setting\n",
             gold ? std::string(name_of(primary)) : "agreement with full depth");
  if (best == nullptr) return;
  const PolicyScore& s = best->rows[best_setting].score;
  fmt::print("best of all: {} with {}: {} after {:.2f} layers on average ({:.2f}x fewer)\n", best->checkpoint, s.policy,
             percent(quality_of(s, primary)), s.cost.average_layers, s.cost.speedup_ratio);
}

void write_files(const SweepFlags& flags, const Swept& swept) {
  const auto under = [&](const std::string& folder) {
    return swept.checkpoint.empty() ? fs::path(folder) : fs::path(folder) / swept.checkpoint;
  };
  if (!flags.npy.empty()) write_deebert_arrays(under(flags.npy), view_runs(swept), swept.exits);
  if (!flags.stats.empty()) {
    write_elbert_stats(under(flags.stats), swept.measured->trace,
                       replay(swept.measured->trace, swept.policies.front(), swept.measured->last));
  }
  if (!flags.view_files.empty()) write_view_files(view_named(flags.view), under(flags.view_files), view_runs(swept));
}

void show_one(const Common& common, const SweepFlags& flags, const Swept& swept) {
  if (!flags.csv.empty()) write_atomically(flags.csv, sweep_csv(swept.rows));
  std::optional<ElueOutcome> elue;
  if (flags.elue || !flags.baseline.empty()) elue = elue_of(flags, swept);
  if (common.json) {
    OrderedJson out;
    out["rows"] = sweep_json(swept.rows);
    if (swept.measured->profile) out["profile"] = swept.measured->profile->name();
    if (elue) out["elue"] = elue_json(*elue);
    return print_json(out);
  }
  print_rows(swept);
  if (elue) print_elue(common, *elue, swept);
}

void show_all(const Common& common, const SweepFlags& flags, std::vector<Swept> all) {
  const Metric primary = primary_metric(all.front().measured->trace);
  std::vector<CheckpointRows> rows;
  for (Swept& swept : all) rows.push_back({.checkpoint = swept.checkpoint, .rows = std::move(swept.rows)});
  mark_best(rows, primary);
  if (!flags.csv.empty()) write_atomically(flags.csv, checkpoints_csv(rows));
  if (common.json) return print_json({{"rows", checkpoints_json(rows)}});
  print_checkpoints(rows, primary);
}

void run(const Common& common, const SweepFlags& flags) {
  const std::vector<PolicySpec> named = named_settings(common, flags.settings);
  std::optional<View> view;
  if (!flags.view.empty()) view = view_named(flags.view);  // refuses before anything runs
  std::vector<Swept> all;
  if (flags.all_checkpoints) {
    all = sweep_checkpoints(common, flags, named);
  } else {
    all.push_back(sweep_one(common, flags, named));
  }
  for (const Swept& swept : all) write_files(flags, swept);
  if (view) {
    for (const Swept& swept : all) {
      for (const ViewRun& one : view_runs(swept))
        if (!one.test) fmt::print("{}", view_lines(*view, one));
    }
    return;
  }
  if (flags.all_checkpoints) return show_all(common, flags, std::move(all));
  show_one(common, flags, all.front());
}

}  // namespace

void add_sweep(CommandLine& line) {
  const auto flags = std::make_shared<SweepFlags>();
  CLI::App* verb = add_verb(
      line, "sweep", "Quality and cost of many settings, from one pass",
      {"exeunt sweep runs/my", "exeunt sweep models/sst2 --task SST-2 --data glue_data --policy 'entropy:0..0.6/0.05'",
       "exeunt sweep x.safetensors --policy 'entropy:0.05|0.1|0.2' --policy 'patience:3..8' --csv sweep.csv",
       "exeunt sweep saved_models/MRPC --all-checkpoints --task MRPC --data glue_data --patience 3,4,5,6,7,8"},
      [flags, &common = line.common] { run(common, *flags); });
  add_run_flags(*verb, flags->run, Takes::model_or_trace);
  add_trace_flags(*verb, flags->run);
  add_score_flags(*verb, flags->run);
  add_setting_flags(*verb, flags->settings, "--policy");
  verb->add_flag("--all-checkpoints", flags->all_checkpoints,
                 "Every checkpoint-N in MODEL under every setting; the best is marked");
  verb->add_option("--csv", flags->csv, "Write the rows as CSV, too")->type_name("FILE");
  verb->add_option("--npy", flags->npy, "Write DeeBERT's arrays there: each_layer.npy and entropy_{S}.npy")
      ->type_name("DIR");
  verb->add_option("--stats", flags->stats, "Write ELBERT's statistics there, of the first setting")->type_name("DIR");
  CLI::Option* view = verb->add_option("--view", flags->view,
                                       "Print an original's own lines instead: deebert, pabee, elasticbert, romebert, "
                                       "elbert")
                          ->type_name("NAME");
  verb->add_option("--view-files", flags->view_files, "Write the files of that original there")
      ->needs(view)
      ->type_name("DIR");
  verb->add_flag("--elue", flags->elue, "Score the settings as ELUE does, against models of this shape cut short");
  verb->add_option("--baseline", flags->baseline, "ELUE: table of other models cut short (docs/formats.md)")
      ->type_name("FILE");
}

}  // namespace exeunt::apps
