// SPDX-License-Identifier: Apache-2.0
// `exeunt sweep` with what the papers' programs print and write of it, and ELUE's score.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/drift.h"
#include "exeunt/policy/policy_text.h"
#include "lab/cli/setting_flags.h"
#include "lab/cli/sweep_output.h"
#include "lab/cli/verbs.h"
#include "lab/elue/elue.h"
#include "lab/papers/elbert.h"
#include "lab/papers/views.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct LabSweepFlags : SweepFlags {
  OldSettingFlags settings;
  std::string view, view_files, test_files, npy, stats, baseline, extrapolate = "clamp", elue_scores;
  bool elue = false;
};

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

void print_elue(const Common& common, const ElueOutcome& elue, const Swept& swept, bool linear) {
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

void write_files(const Common& common, const LabSweepFlags& flags, const Swept& swept) {
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

void show_one(const Common& common, const LabSweepFlags& flags, const Swept& swept) {
  if (!flags.csv.empty()) write_atomically(flags.csv, sweep_csv(swept.rows));
  std::optional<ElueOutcome> elue;
  if (flags.elue || !flags.baseline.empty()) {
    elue =
        elue_outcome(swept, flags.baseline, flags.extrapolate == "linear" ? Extrapolate::linear : Extrapolate::clamp);
  }
  std::optional<double> overall;
  if (elue && elue->score && !flags.elue_scores.empty())
    overall = keep_elue_score(flags.elue_scores, elue->task, elue->score->score);
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
void answer_by_best(const Common& common, const LabSweepFlags& flags, View view, std::vector<Swept>& all) {
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
    const auto settings = [&](const ExitTrace&) { return best; };
    write_answers(view, flags.test_files, sweep_model(run, settings, observer(common)));
    notice(common, fmt::format("the test split with {}: answered by {}", fmt::join(names, ", "), all[i].checkpoint));
  }
}

// DeeBERT's programs ran every threshold and timed it; a replay does not.
void tell_replayed(const Common& common, const LabSweepFlags& flags, const std::optional<View>& view) {
  const bool timed = view == View::deebert || view == View::romebert;
  if (flags.measure || (!timed && flags.npy.empty())) return;
  notice(common, fmt::format("{} of the replay, not of a run: --measure runs every setting",
                             flags.npy.empty() ? "'Eval time' is" : "'Eval time' and the time in entropy_S.npy are"));
}

void run_lab_sweep(const Common& common, const LabSweepFlags& flags) {
  std::optional<View> view;
  if (!flags.view.empty()) view = view_named(flags.view);  // rejects it before anything runs
  std::vector<Swept> all = run_sweep(common, flags, settings_of_flags(common, flags.settings));
  tell_replayed(common, flags, view);
  for (const Swept& swept : all) write_files(common, flags, swept);
  if (!flags.test_files.empty()) answer_by_best(common, flags, *view, all);
  if (view) {
    for (const Swept& swept : all) {
      if (swept.measured->trace.labelled()) fmt::print("{}", view_heading(*view, swept.checkpoint));
      for (const ViewRun& one : view_runs(swept))
        if (!one.test) fmt::print("{}", view_lines(*view, one));
    }
    return;
  }
  if (flags.all_checkpoints) return show_checkpoints(common, flags, std::move(all));
  show_one(common, flags, all.front());
}

}  // namespace

void add_sweep(CommandLine& line) {
  const auto flags = std::make_shared<LabSweepFlags>();
  CLI::App* verb = add_sweep_verb(line, *flags, [flags, &common = line.common] { run_lab_sweep(common, *flags); });
  add_old_setting_flags(*verb, flags->settings, "--policy");
  verb->add_option("--npy", flags->npy, "Also write DeeBERT's arrays: each_layer.npy and entropy_{S}.npy");
  verb->add_option("--stats", flags->stats, "Also write ELBERT's statistics, for the first policy");
  CLI::Option* view = verb->add_option(
      "--view", flags->view,
      "Print the output of an original implementation instead: deebert, pabee, elasticbert, romebert, elbert");
  verb->add_option(
          "--test-files", flags->test_files,
          "With --all-checkpoints: the test split as files of that implementation, each policy answered by the "
          "checkpoint that is best with it")
      ->needs(view)
      ->needs("--all-checkpoints");
  verb->add_option("--view-files", flags->view_files, "Also write the files of that implementation")->needs(view);
  verb->add_flag("--elue", flags->elue, "Compute the ELUE score against truncated models of this shape");
  verb->add_option("--extrapolate", flags->extrapolate,
                   "ELUE: beyond the baseline's costs, clamp to its ends or continue its lines: clamp or linear")
      ->check(one_of({"clamp", "linear"}))
      ->capture_default_str();
  verb->add_option("--elue-scores", flags->elue_scores,
                   "ELUE: also keep the score in this file, by task; with all six tasks it has the overall score");
  verb->add_option("--baseline", flags->baseline, "ELUE: table of other truncated models (docs/formats.md)");
}

}  // namespace exeunt::apps
