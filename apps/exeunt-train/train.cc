// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/train.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/ranges.h>

#include "apps/exeunt-train/certify.h"
#include "apps/exeunt-train/defaults.h"
#include "apps/exeunt-train/summary.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/recipes/defaults.h"
#include "exeunt/recipes/elbert_config.h"
#include "exeunt/train/estimate.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/verdicts.h"

namespace exeunt::apps {
namespace {

std::atomic<bool> stop_asked{false};

// SIGTERM and the first Ctrl-C save a checkpoint and end the run; a second Ctrl-C ends it at once.
void ask_to_stop(int signal) {
  stop_asked = true;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

std::string in_percent(const OrderedJson& value) {
  return fmt::format("{:.2f}", 100 * (value.is_number() ? value.get<double>() : NAN));
}

void print_exits(const OrderedJson& exits) {
  std::vector<std::string> header{"exit after"};
  std::vector<std::vector<std::string>> rows;
  for (const OrderedJson& exit : exits) {
    std::vector<std::string> row;
    for (const auto& [key, value] : exit.items()) {
      if (key != "layer" && rows.empty()) header.push_back(key);
      row.push_back(key == "layer" ? value.dump() : in_percent(value));
    }
    rows.push_back(std::move(row));
  }
  print_table(header, rows);
}

// ELBERT's settings are in the config.json it starts from; flags go before them.
void take_elbert_config(const Common& common, const Checkpoint& model, TrainFlags& flags) {
  const ReadPath path = ReadPath::in(model.folder(), "config.json");
  if (!flags.recipe.starts_with("elbert") || !path_exists(path.path())) return;
  const ElbertTraining asked = elbert_training(read_json(path), path.string());
  for (const std::string& text : asked.notices) notice(common, text);
  constexpr std::string_view kObjective = "stages.0.objective";
  std::vector<std::string> taken;
  for (const std::string& field : asked.set) {
    const std::string name = field.substr(0, field.find('='));
    const bool by_flag = flags.changes.objective.contains(name.substr(name.rfind('.') + 1));
    if (name.starts_with(kObjective) && (by_flag || flags.recipe != "elbert")) continue;
    taken.push_back(field);
  }
  if (taken.empty()) return;
  notice(common, fmt::format("{}: {}", path.string(), fmt::join(taken, ", ")));
  flags.changes.set.insert(flags.changes.set.begin(), taken.begin(), taken.end());
}

// What the run would take on this machine. With --budget, epochs are lowered to fit into it.
double fit_into_budget(const Common& common, const TrainFlags& flags, const Checkpoint& model, const LoadedData& loaded,
                       TrainOptions& options) {
  const double seconds = seconds_per_text(model, loaded.data, options) * workload_of(model, loaded.data, options).cost;
  if (flags.budget.empty()) return seconds;
  constexpr double kForTheRest = 0.9;  // reading, evaluating and writing take time, too
  const double budget = kForTheRest * seconds_of(flags.budget, "--budget");
  if (seconds <= budget) return seconds;
  const TrainingCase which{.family = model.spec().family,
                           .rows = static_cast<int64_t>(loaded.data.train.rows()),
                           .problem = loaded.data.outcome.problem};
  const double share = budget / seconds;
  double epochs = 0;
  for (StageSpec& stage : options.recipe.stages) {
    stage.epochs = CaseNumber{.value = number_for(stage.epochs, which) * share};
    epochs += stage.epochs.value;
  }
  options.max_steps = static_cast<int64_t>(static_cast<double>(options.max_steps) * share);
  notice(common, fmt::format("--budget {}: {:.1f} epochs instead of {:.1f}, which would take about {}", flags.budget,
                             epochs, epochs / share, duration_text(seconds)));
  return budget;
}

void run(const Common& asked, TrainFlags flags) {
  Common common = asked;
  if (!first_process()) common.quiet = true;
  if (!flags.max_drop.empty()) (void)share_of(flags.max_drop, "--max-drop");
  if (!flags.budget.empty()) {
    (void)seconds_of(flags.budget, "--budget");
    if (flags.resume) throw Error(Code::usage, "--budget: not with --resume", "the run that is resumed has its epochs");
  }
  const Recipe recipe = find_recipe(flags.recipe);
  (void)changed(recipe, flags.changes, place_of(flags, ""));  // mistakes in the flags are found before any file is read
  const Checkpoint model = open_base(common, flags);
  take_elbert_config(common, model, flags);
  if (first_process() && !flags.resume && !flags.overwrite) require_free(flags.out);
  const LoadedData loaded = load_rows(common, flags, model);
  require_thresholds_fit(flags, loaded.data.outcome);
  auto [options, adapted] = plan_training(common, flags, recipe, loaded, model.spec());
  if (!adapted.empty()) notice(common, adapted);
  if (flags.dry_run || !flags.budget.empty()) {
    const double seconds = fit_into_budget(common, flags, model, loaded, options);
    const Workload work = workload_of(model, loaded.data, options);
    if (flags.dry_run) {
      fmt::print("rows: {}\n{} steps, {} texts, about {} on this machine\n", rows_text(loaded), work.steps, work.texts,
                 duration_text(seconds));
      std::error_code ignored;
      std::filesystem::remove(flags.out, ignored);  // where it is empty, it was made for the few steps that were timed
      return;
    }
  }
  options.estimate = !common.quiet && !common.json && !flags.resume;
  options.started = [&, &options = options](const RunStart& start) {
    notice_pairs(common, summary_of({.flags = flags, .model = model, .loaded = loaded, .options = options}, start));
  };
  const TrainResult result = train(model, loaded.data, options);
  if (!first_process()) return;
  if (common.json) {
    OrderedJson out = result.stopped ? OrderedJson{{"stopped_at", result.steps}} : result.results;
    if (!result.stopped && loaded.user_file) out["calibration"] = certify_trained(common, flags, loaded.held_out_rows);
    return print_json(out);
  }
  if (result.stopped) {
    fmt::print("stopped at step {}; continue with --resume\n", result.steps);
    return;
  }
  if (result.results.contains("exits")) print_exits(result.results.at("exits"));
  for (const std::string& line : yardstick_lines(loaded.data.yardstick)) fmt::print("{}\n", line);
  fmt::print("wrote {} after {} steps\n", flags.out, result.steps);
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  for (const std::string& text : verdicts_on(result.results, loaded.data)) notice(common, text);
  if (loaded.user_file) (void)certify_trained(common, flags, loaded.held_out_rows);
  // The last line, so that nobody overlooks it.
  if (const std::string text = lost_to_yardstick(result.results, loaded.data); !text.empty()) notice(common, text);
}

}  // namespace

Checkpoint open_base(const Common& common, TrainFlags& flags) {
  const bool chosen = !flags.model.empty();
  complete(flags);
  if (!chosen) notice(common, fmt::format("no --model: starting from {}", flags.model));
  Checkpoint model = Checkpoint::open(flags.model);
  for (const std::string& line : model.notices()) notice(common, line);
  if (flags.layers > 0) model = first_layers(model, flags.layers);
  return model;
}

LoadedData load_rows(const Common& common, const TrainFlags& flags, const Checkpoint& model) {
  const TrainingSource source{.task = flags.task,
                              .data = flags.data,
                              .eval_data = flags.eval_data,
                              .train_features = flags.train_features,
                              .eval_features = flags.eval_features,
                              .columns = flags.columns,
                              .hold_out = flags.hold_out == "0" ? 0 : share_of(flags.hold_out, "--hold-out"),
                              .also = flags.also,
                              .limit = flags.limit,
                              .max_length = flags.max_length,
                              .threads = flags.threads};
  return load_training(source, model, [&](std::string_view text) { notice(common, text); });
}

std::string place_of(const TrainFlags& flags, const std::string& task) {
  return fmt::format("recipe {}{}{} with these flags", flags.recipe, task.empty() ? "" : " on ", task);
}

Planned plan_training(const Common& common, const TrainFlags& flags, const Recipe& recipe, const LoadedData& loaded,
                      const ModelSpec& spec) {
  const TrainingData& data = loaded.data;
  RecipeChanges changes = flags.changes;
  Planned plan;
  if (!flags.preset.empty()) {
    apply_reference_preset(changes, data.task, data.outcome.problem);
  } else if (!flags.as_written) {
    const RunShape shape{.hidden = spec.hidden,
                         .layers = spec.layers,
                         .labels = static_cast<int64_t>(data.outcome.labels.size()),
                         .rows = static_cast<int64_t>(data.train.rows()),
                         .pairs = data.pairs() > 0 || data.of_pairs,
                         .problem = data.outcome.problem};
    const Adapted adapted = adapt_to_shape(changes, flags.recipe, shape);
    if (!adapted.flags.empty())
      plan.adapted = fmt::format("{}: {} (--as-written keeps the recipe's own)", adapted.why, adapted.flags);
  }
  TrainOptions& options = plan.options;
  static_cast<TrainSettings&>(options) = flags;
  options.recipe = changed(recipe_for(recipe, data.task, data.pairs()), changes, place_of(flags, data.task));
  options.out = flags.out;
  options.whole_warmup = !flags.preset.empty();
  options.progress = progress_on_stderr(common.quiet);
  options.notice = [&common](std::string_view text) { notice(common, text); };
  options.stop = &stop_asked;
  if (!loaded.held_out.empty()) options.beside.emplace_back(kHeldOutFile, loaded.held_out);
  std::signal(SIGTERM, ask_to_stop);
  std::signal(SIGINT, ask_to_stop);
  return plan;
}

void add_train_verbs(CommandLine& line) {
  // Asked by 'exeunt doctor'; people need not know it.
  add_verb(line, "about", "What this trainer was built with, as JSON", {}, [] {
    const TrainerAbout about = about_trainer();
    print_json({{"torch", about.torch}, {"gpus", about.gpus}, {"gloo", about.gloo}, {"nccl", about.nccl}});
  })->group("");
  add_train_verb(line, [&common = line.common](const TrainFlags& flags) { run(common, flags); });
}

}  // namespace exeunt::apps
