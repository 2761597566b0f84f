// SPDX-License-Identifier: Apache-2.0
// `exeunt sweep` with what the papers' programs print and write of it, and ELUE's score.
#include <chrono>
#include <filesystem>
#include <memory>

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/policy/policy_text.h"
#include "lab/choose/sweep_model.h"
#include "lab/cli/setting_flags.h"
#include "lab/cli/verbs.h"
#include "lab/elue/elue.h"
#include "lab/papers/elbert.h"
#include "lab/papers/views.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// `exeunt sweep`: quality and cost of many policies from one forward pass, for one model or every checkpoint of a
// training.
struct SweepFlags {
  MeasureOptions run{.fp32_answers = true};
  OldSettingFlags settings;
  std::string csv, view, view_files, test_files, npy, stats, baseline, extrapolate = "clamp", elue_scores;
  bool all_checkpoints = false, measure = false, elue = false;
};

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

// The runs as the original implementations would report them. Times are those of the replay, unless --measure ran them.
std::vector<ViewRun> view_runs(const Swept& swept) {
  const ExitTrace& trace = swept.measured->trace;
  std::vector<ViewRun> runs;
  for (size_t i = 0; i < swept.policies.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Departures departures = replay(trace, swept.policies[i], swept.measured->trace.info.last_head);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ViewRun run{.policy = swept.policies[i],
                .score = swept.rows[i].score,
                .layers = trace.info.layers,
                .exit_layers = {},
                .task = plain_task(trace),
                .checkpoint = swept.checkpoint,
                .seconds = seconds.count()};
    if (swept.rows[i].score.measured_ms)
      run.seconds = *swept.rows[i].score.measured_ms * 1e-3 * static_cast<double>(trace.rows);
    run.test = trace.info.split == "test" && !trace.labelled();
    for (size_t row = 0; row < trace.rows; ++row) {
      run.exit_layers.push_back(trace.info.layers[departures.exit[row]]);
      if (run.test) run.answers.push_back(answer_text(trace.info, trace.at(row, departures.exit[row])));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

OrderedJson elue_json(const ElueOutcome& elue) {
  OrderedJson out;
  out["task"] = elue.task;
  out["score"] = elue.score ? OrderedJson(elue.score->score) : OrderedJson(nullptr);
  out["area"] = elue.score ? OrderedJson(elue.score->area) : OrderedJson(nullptr);
  out["outside"] = elue.score ? OrderedJson(elue.score->outside) : OrderedJson(nullptr);
  return out;
}

bool asks_for_elue(const SweepFlags& flags) {
  return flags.elue || !flags.baseline.empty() || !flags.elue_scores.empty();
}

void print_elue(const Common& common, const ElueOutcome& elue, const Swept& swept, bool linear) {
  if (!elue.score) {
    const ModelSpec& spec = swept.measured->model->spec();
    const std::string what = elue.source.empty() ? fmt::format("{} layers of {}", spec.layers, spec.hidden)
                                                 : fmt::format("{} in {}", elue.task, elue.source);
    const bool elues_own = elue.source.empty() && spec.layers == 12 && spec.hidden == 768;
    notice(common, fmt::format("no ELUE score: there is no baseline for {}{}; name one with --baseline FILE (lab/"
                               "docs/formats.md): a point for each number of layers K, of models trained with --recipe "
                               "elasticbert-static --layers K",
                               what, elues_own ? " (ELUE's own, of ElasticBERT-base, needs its weights)" : ""));
    return;
  }
  fmt::print("\nELUE score {:.2f}, area {:.2f}{}\n", elue.score->score, elue.score->area,
             elue.source.empty() ? "" : " against " + elue.source);
  if (elue.score->outside > 0) {
    notice(common, fmt::format("{} of the points lie outside the baseline's range of costs and are {}",
                               elue.score->outside, linear ? "extrapolated" : "clamped to its ends"));
  }
}

// Files for a server: every label in them must be one of the task's.
void write_answers(View view, const std::filesystem::path& folder, const Swept& swept) {
  const TraceInfo& info = swept.measured->trace.info;
  const Task* task = find_task_or_null(info.task);
  if (task != nullptr && info.split == "test") require_task_labels(*task, info.labels);
  write_view_files(view, folder, view_runs(swept));
}

void write_files(const Common& common, const SweepFlags& flags, const Swept& swept) {
  const auto under = [&](const std::string& folder) {
    return swept.checkpoint.empty() ? fs::path(folder) : fs::path(folder) / swept.checkpoint;
  };
  const bool scored = !swept.rows.front().score.metrics.empty();
  if (!flags.npy.empty() && scored) write_deebert_arrays(under(flags.npy), view_runs(swept), swept.exits);
  if (!flags.npy.empty() && !scored)
    notice(common, fmt::format("{}: cannot write arrays of scores: the rows have no gold labels", flags.npy));
  if (!flags.stats.empty()) {
    write_elbert_stats(under(flags.stats), swept.measured->trace, swept.policies.front(),
                       replay(swept.measured->trace, swept.policies.front(), swept.measured->trace.info.last_head));
  }
  if (!flags.view_files.empty()) write_answers(view_named(flags.view), under(flags.view_files), swept);
}

void show_one(const Common& common, const SweepFlags& flags, const Swept& swept) {
  const Extrapolate beyond = flags.extrapolate == "linear" ? Extrapolate::linear : Extrapolate::clamp;
  std::optional<ElueOutcome> elue;
  if (asks_for_elue(flags)) elue = elue_outcome(swept, flags.baseline, beyond);
  if (elue && !elue->rows.empty()) notice(common, fmt::format("for ELUE: {} alone", elue->rows));
  if (!flags.csv.empty()) write_atomically(flags.csv, sweep_csv(swept.rows));
  std::optional<double> overall;
  if (elue && elue->score && !flags.elue_scores.empty()) overall = keep_elue_score(flags.elue_scores, *elue, beyond);
  if (common.json) {
    OrderedJson out = swept_json(swept);
    if (elue) out["elue"] = elue_json(*elue);
    if (overall) out["elue"]["overall"] = *overall;
    return print_json(out);
  }
  print_rows(swept);
  if (elue) print_elue(common, *elue, swept, flags.extrapolate == "linear");
  if (overall) fmt::print("ELUE score over all six tasks {:.2f}\n", *overall);
}

// The test split, under each setting answered by the checkpoint that was best with it.
void answer_by_best(const Common& common, const SweepFlags& flags, View view, std::vector<Swept>& all) {
  mark_best(all, primary_metric(all.front().measured->trace));
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<PolicySpec> best;
    std::vector<std::string> names;
    for (size_t setting = 0; setting < all[i].policies.size(); ++setting) {
      if (!all[i].best[setting]) continue;
      best.push_back(all[i].policies[setting]);
      names.push_back(str(best.back()));
    }
    if (best.empty()) continue;
    MeasureOptions run = flags.run;
    run.model = all[i].measured->model->folder().string();
    run.tokenizer = all[i].tokenizer;
    run.data.split = "test";
    const auto settings = [&](const Measured&) { return best; };
    write_answers(view, flags.test_files, sweep_model(run, settings, observer(common)));
    notice(common, fmt::format("the test split with {}: answered by {}", fmt::join(names, ", "), all[i].checkpoint));
  }
}

// DeeBERT's programs ran every threshold and timed it; a replay does not.
void tell_replayed(const Common& common, const SweepFlags& flags, const std::optional<View>& view) {
  const bool timed = view == View::deebert || view == View::romebert;
  if (flags.measure || (!timed && flags.npy.empty())) return;
  notice(common, fmt::format("{} of the replay, not of a run: --measure runs every setting",
                             flags.npy.empty() ? "'Eval time' is" : "'Eval time' and the time in entropy_S.npy are"));
}

void run_lab_sweep(const Common& common, const SweepFlags& flags) {
  std::optional<View> view;
  if (!flags.view.empty()) view = view_named(flags.view);  // rejects it before anything runs
  if (asks_for_elue(flags) && (view || flags.all_checkpoints))
    throw Error(Code::usage,
                "--elue, --baseline and --elue-scores cannot be combined with --view or --all-checkpoints");
  std::vector<Swept> all = run_sweep(common, flags, settings_of_flags(common, flags.settings, view.has_value()));
  tell_replayed(common, flags, view);
  for (const Swept& swept : all) write_files(common, flags, swept);
  if (!flags.test_files.empty()) answer_by_best(common, flags, *view, all);
  if (view) {
    std::string lines;  // nothing is printed of settings of which the view does not know one
    for (const Swept& swept : all) {
      if (swept.measured->trace.labelled()) lines += view_heading(*view, swept.checkpoint);
      for (const ViewRun& one : view_runs(swept))
        if (!one.test) lines += view_lines(*view, one);
    }
    fmt::print("{}", lines);
    return;
  }
  if (flags.all_checkpoints) return show_checkpoints(common, flags, std::move(all));
  show_one(common, flags, all.front());
}

}  // namespace

void add_sweep(CommandLine& line) {
  const auto flags = std::make_shared<SweepFlags>();
  CLI::App* verb = add_sweep_verb(line, *flags, [flags, &common = line.common] { run_lab_sweep(common, *flags); });
  add_old_setting_flags(*verb, flags->settings, "--policy");
  verb->add_option("--npy", flags->npy, "Also write DeeBERT's arrays: each_layer.npy and entropy_{S}.npy");
  verb->add_option("--stats", flags->stats, "Also write ELBERT's statistics, for the first policy");
  CLI::Option* view = verb->add_option(
      "--view", flags->view,
      "Print the output of an original implementation instead: deebert, pabee, elasticbert, romebert, elbert; of the "
      "model's own policy unless others are named");
  verb->add_option(
          "--test-files", flags->test_files,
          "With --all-checkpoints: the test split as files of that implementation, each policy answered by the "
          "checkpoint that is best with it")
      ->needs(view)
      ->needs("--all-checkpoints");
  verb->add_option("--view-files", flags->view_files, "Also write the files of that implementation")->needs(view);
  verb->add_flag("--elue", flags->elue,
                 "Compute the ELUE score against truncated models; built in for 12 layers of 384 alone");
  verb->add_option("--extrapolate", flags->extrapolate,
                   "ELUE: beyond the baseline's costs, clamp to its ends or continue its lines: clamp or linear")
      ->check(one_of({"clamp", "linear"}))
      ->capture_default_str();
  verb->add_option(
      "--elue-scores", flags->elue_scores,
      "ELUE: also keep the score in this file, by task; with all six tasks it has the overall score; 'exeunt "
      "report FILE' is the leaderboard of such files");
  verb->add_option("--baseline", flags->baseline, "ELUE: table of other truncated models (lab/docs/formats.md)");
}

}  // namespace exeunt::apps
