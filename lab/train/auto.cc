// SPDX-License-Identifier: Apache-2.0
#include "lab/train/auto.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt-train/train.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/policy/policy_text.h"
#include "lab/cli/goal_flags.h"
#include "lab/train/compare.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// Nothing is certified here: the rows have chosen the recipe. Without a target, a loss that the rows can show.
Goal goal_for(const Common& common, const TrainFlags& flags, const AutoFlags& choice, size_t rows) {
  GoalFlags asked;
  asked.speedup = choice.target_speedup;
  if (flags.certify.max_drop) asked.max_drop = fmt::format("{}", *flags.certify.max_drop);
  const bool given = asked.given();
  if (!given) asked.max_drop = kAutoDrop;
  Goal goal = goal_of(asked);
  goal.certify = false;
  if (given || smallest_drop_shown(rows, *goal.max_drop) == *goal.max_drop) return goal;
  goal.max_drop = smallest_drop_shown(rows, *goal.max_drop);
  notice(common,
         fmt::format("no target: comparing at a loss of at most {:g} %, the smallest that {} rows can show; set "
                     "one with --target-speedup or --max-drop",
                     100 * *goal.max_drop, rows));
  return goal;
}

std::vector<ComparedRecipe> candidates_of(const Common& common, const TrainFlags& flags, const std::string& names,
                                          const TrainJob& job) {
  std::vector<ComparedRecipe> out;
  std::vector<std::pair<std::string, std::vector<std::string>>> adapted;  // what is to be said, and of which recipes
  for (const std::string& name : comma_list(names.empty() ? kAutoRecipes : names)) {
    const std::string label = fs::path(name).stem().string();
    if (std::any_of(out.begin(), out.end(), [&](const ComparedRecipe& other) { return other.name == label; }))
      throw Error(Code::usage, fmt::format("--try: duplicate '{}'", label));
    if (name == kAuto) throw Error(Code::usage, "--try: got 'auto', want recipes");
    PlanRequest request = flags.plan;
    request.recipe = name;
    const TrainPlan plan = resolve_plan(find_recipe(name), request, job.model.spec(), job.loaded.data.facts());
    if (const std::string text = data_defaults_text(plan); !text.empty()) {
      auto place = std::find_if(adapted.begin(), adapted.end(), [&](const auto& said) { return said.first == text; });
      if (place == adapted.end()) place = adapted.insert(adapted.end(), {text, {}});
      place->second.push_back(label);
    }
    out.push_back({.name = label, .options = options_for(common, job, plan)});
  }
  if (out.empty()) throw Error(Code::usage, "--try: got no recipe", "for example --try plain,exeunt");
  for (const auto& [text, recipes] : adapted)
    notice(common, recipes.size() == out.size() ? text : fmt::format("{}: {}", fmt::join(recipes, ", "), text));
  return out;
}

// What this is going to cost, before it is spent.
void announce(const Common& common, bool print, RecipeComparison& comparison, const LoadedData& loaded) {
  int64_t steps = 0, texts = 0;
  double cost = 0;
  std::vector<std::string> names, done;
  for (const ComparedRecipe& candidate : comparison.candidates()) {
    (candidate.done ? done : names).push_back(candidate.name);
    if (candidate.done) continue;
    steps += candidate.work.steps;
    texts += candidate.work.texts;
    cost += candidate.work.cost;
  }
  const auto say = [&](const std::string& text) {
    if (print) {
      fmt::print("{}\n", text);
    } else {
      notice(common, text);
    }
  };
  say(fmt::format("split: {}", split_text(loaded)));
  if (!done.empty()) say(fmt::format("already trained: {}", fmt::join(done, ", ")));
  if (names.empty()) return;
  say(fmt::format("{} to train: {}; {} steps, {} texts in all, about {} on this machine", names.size(),
                  fmt::join(names, ", "), steps, texts, duration_text(comparison.seconds_per_text() * cost)));
}

// The winner gets its promise from rows that did not choose it, where there are any.
OrderedJson certify_winner(const Common& common, const TrainJob& job) {
  if (job.loaded.held_out_rows > 0) return certify_trained(common, job.certification);
  notice(common, fmt::format("next, with texts that were not used here: exeunt calibrate {0} --data FILE{1} --max-drop "
                             "1%, then exeunt serve {0}",
                             shell_word(job.out), flags_for(job.certification.columns)));
  return nullptr;
}

void print_compared(const RecipeComparison& comparison, const Compared& compared, const Goal& goal,
                    const TrainingData& data) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<ComparedRecipe>& candidates = comparison.candidates();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::vector<ExitScore> exits = Scorer(compared.traces[i], {.metrics = data.metrics}).each_exit();
    rows.push_back({candidates[i].name, fmt::format("{}", candidates[i].work.steps),
                    duration_text(candidates[i].seconds), fmt::format("{}", exits.size()),
                    percent(primary_of(exits.front().metrics, data.primary)),
                    percent(primary_of(exits.back().metrics, data.primary)), i == compared.winner ? "*" : ""});
  }
  fmt::print("trained, with {} of the first and the last exit on the validation split, {} rows:\n",
             name_of(data.primary), data.eval.rows());
  print_table({"recipe", "steps", "time", "exits", "first", "last", "kept"}, rows);
  for (const std::string& line : baseline_lines(data.baseline)) fmt::print("{}\n", line);
  fmt::print("\n");
  print_recommendation(compared.what, compared.runs, goal, Asker::train);
}

// Candidates are trained one after the other; several processes would have to agree on all of it.
void require_one_process() {
  for (const char* name : {"WORLD_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0' || number_of<int>(value) == 1) continue;
    throw Error(Code::usage, fmt::format("--recipe auto runs in one process, and {} is {}", name, value),
                "compare with one, then train the winner with several");
  }
}

}  // namespace

void train_auto(const Common& common, const TrainFlags& flags, const AutoFlags& choice) {
  if (flags.plan.recipe != kAuto)
    throw Error(Code::usage,
                fmt::format("{}: only with --recipe auto", choice.try_recipes.empty() ? "--target-speedup" : "--try"));
  require_one_process();
  if (flags.plan.time_limit > 0)
    throw Error(Code::usage, "--time-limit: not with --recipe auto", "--epochs gives every candidate less time");
  if (!flags.certify.thresholds.empty())
    throw Error(Code::usage, "--thresholds: not with --recipe auto",
                "give them to what was kept: exeunt calibrate MODEL --thresholds fit");
  TrainJob job = open_job(common, flags);
  if (!choice.target_speedup.empty()) job.certification.skip = true;  // the winner's policy is for that speed
  const LoadedData& loaded = job.loaded;
  const Goal goal = goal_for(common, flags, choice, loaded.data.eval.rows());
  CompareOptions options{.out = job.out, .goal = goal, .resume = flags.plan.resume, .overwrite = flags.plan.overwrite};
  options.seed = flags.plan.changes.recipe.value("seed", options.seed);
  options.notice = [&common](std::string_view text) { notice(common, text); };
  RecipeComparison comparison(job.model, loaded.data, options, candidates_of(common, flags, choice.try_recipes, job));
  comparison.open();
  announce(common, flags.dry_run, comparison, loaded);
  if (flags.dry_run) {
    std::error_code ignored;
    fs::remove(job.out, ignored);  // where it is empty, it was made for the few steps that were timed
    return;
  }
  if (const auto stopped = comparison.train_all()) {
    if (common.json) return print_json({{"stopped_in", *stopped}});
    fmt::print("stopped in {}; continue with --resume\n", *stopped);
    return;
  }
  const Compared compared = comparison.choose();
  if (common.json) {
    OrderedJson out = compared.json;
    out["calibration"] = certify_winner(common, job);
    return print_json(out);
  }
  print_compared(comparison, compared, goal, loaded.data);
  const std::string& winner = comparison.candidates()[compared.winner].name;
  fmt::print("wrote {} ({}{}); the other models are in {}\n", job.out, winner,
             compared.new_policy ? ", policy " + str(compared.what.best().policy) : "",
             (fs::path(job.out) / "candidates").string());
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  (void)certify_winner(common, job);
  const std::vector<ExitScore> exits =
      Scorer(compared.traces[compared.winner], {.metrics = loaded.data.metrics}).each_exit();
  const double last = primary_of(exits.back().metrics, loaded.data.primary);
  if (const std::string text = lost_to_baseline(loaded.data.baseline, loaded.data.primary, last); !text.empty())
    notice(common, text);
}

}  // namespace exeunt::apps
