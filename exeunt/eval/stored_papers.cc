// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/stored_papers.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/tasks/task.h"

namespace exeunt {
namespace {

constexpr std::string_view kElue = "elue-";  // before the names of tasks with ELUE's own data

using Runs = std::vector<const StoredRun*>;
using Values = std::map<std::string, std::vector<double>>;  // of several seeds, by metric

std::vector<Score> means(const Values& values) {
  std::vector<Score> out;
  for (const auto& [name, scores] : values) {
    if (const auto metric = metric_named(name)) out.push_back({*metric, *mean_of(scores)});
  }
  return out;
}

// As the published figures call it, where it is the paper's own; empty where the files do not say.
std::string backbone_of(const Runs& runs, const Paper& paper) {
  std::set<std::string> names;
  for (const StoredRun* run : runs) {
    const bool own = run->backbone == paper.model.substr(paper.model.rfind('/') + 1);
    if (!run->backbone.empty()) names.insert(own ? std::string(paper.backbone) : run->backbone);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

Reached begun(const Runs& runs, const Paper& paper, const Task& measured_on) {
  Reached reached{.split = "dev", .backbone = backbone_of(runs, paper), .recipe = runs.front()->recipe};
  const SplitFile* dev = measured_on.find(Split::dev);
  reached.rows = dev == nullptr ? 0 : dev->rows;
  std::set<int64_t> seeds, rows;
  for (const StoredRun* run : runs) {
    seeds.insert(run->seed);
    rows.insert(run->train_rows);
  }
  reached.seeds = static_cast<int>(seeds.size());
  const SplitFile* train = measured_on.find(Split::train);
  if (rows.size() == 1 && *rows.begin() > 0 && train != nullptr) {
    reached.train_rows = *rows.begin();
    reached.all_train_rows = train->rows;
  }
  return reached;
}

void add_exits(const Runs& runs, Reached& reached) {
  std::map<int, Values> at;
  for (const StoredRun* run : runs) {
    for (const StoredRun::Exit& exit : run->exits) {
      for (const auto& [name, value] : exit.scores) at[exit.layer][name].push_back(value);
    }
  }
  for (const auto& [layer, values] : at) reached.exits.push_back({layer, means(values)});
}

// The settings of the paper's rule with every metric; then those of the curves, which have the task's first one alone.
void add_points(const StoredResults& results, const std::string& task, Reached& reached) {
  struct Seeds {
    std::vector<double> layers;
    Values scores;
  };
  std::vector<std::string> order;
  std::map<std::string, Seeds> found;
  for (const StoredReplay& replay : results.replays) {
    if (replay.task != task || replay.recipe != reached.recipe) continue;
    for (const StoredReplay::Point& point : replay.points) {
      if (!found.contains(point.policy)) order.push_back(point.policy);
      Seeds& seeds = found[point.policy];
      seeds.layers.push_back(point.layers);
      for (const auto& [name, score] : point.scores) seeds.scores[name].push_back(score);
    }
  }
  const double depth = reached.exits.empty() ? kGridLayers : reached.exits.back().layer;
  for (const std::string& policy : order) {
    const Seeds& seeds = found[policy];
    reached.points.push_back({policy, depth / *mean_of(seeds.layers), means(seeds.scores)});
  }
  for (const StoredCurve::Point& point : mean_curve(results, task, reached.recipe, "eval")) {
    if (!found.contains(point.policy))
      reached.points.push_back({point.policy, depth / point.layers, {{find_task(task).primary, point.score / 100}}});
  }
}

void add_whole(const StoredResults& results, const Paper& paper, const std::string& task, std::vector<Reached>& out) {
  for (const std::string_view recipe : {paper.recipe, paper.also}) {
    const Runs runs = recipe.empty() ? Runs{} : runs_of(results, task, recipe);
    if (runs.empty()) continue;
    Reached reached = begun(runs, paper, find_task(task));
    reached.task = task;
    if (recipe != paper.recipe) reached.apart = "all exits trained together";
    add_exits(runs, reached);
    add_points(results, task, reached);
    out.push_back(std::move(reached));
  }
}

// Models with the first k layers alone, each with its one exit.
void add_cut_short(const StoredResults& results, const Paper& paper, const std::string& task,
                   std::vector<Reached>& out) {
  for (const bool elue : {false, true}) {
    const std::string stored = fmt::format("{}{}", elue ? kElue : "", task);
    Runs runs;
    for (const StoredRun& run : results.runs) {
      if (run.task == stored && run.recipe == paper.recipe && run.layers > 0) runs.push_back(&run);
    }
    if (runs.empty()) continue;
    Reached reached = begun(runs, paper, find_task(elue ? fmt::format("elue/{}", task) : task));
    reached.task = task;
    reached.cut_short = true;
    if (elue) reached.apart = "ours is on ELUE's data";
    add_exits(runs, reached);
    out.push_back(std::move(reached));
  }
}

[[noreturn]] void throw_nothing_stored(const StoredResults& results, const Paper& paper, const std::string& task) {
  std::vector<std::string> recipes{std::string(paper.recipe)}, stored;
  if (!paper.also.empty()) recipes.emplace_back(paper.also);
  const std::vector<std::string> with_figures = tasks_of(paper);
  for (const std::string& recipe : recipes) {
    std::set<std::string> tasks;
    for (const StoredRun& run : results.runs) {
      const std::string name = run.task.starts_with(kElue) ? run.task.substr(kElue.size()) : run.task;
      const bool compared = std::find(with_figures.begin(), with_figures.end(), name) != with_figures.end();
      if (run.recipe == recipe && compared) tasks.insert(name);
    }
    if (!tasks.empty()) stored.push_back(fmt::format("{} on {}", recipe, fmt::join(tasks, ", ")));
  }
  throw Error(
      Code::usage,
      fmt::format("{}: got no stored run of recipe {} on {}", results.folder.string(), fmt::join(recipes, " or "),
                  task),
      fmt::format("{}to train it: exeunt reproduce {} --task {} --model DIR --data DIR",
                  stored.empty() ? "" : fmt::format("stored: {}; ", fmt::join(stored, "; ")), paper.name, task));
}

}  // namespace

std::vector<Reached> reached_by(const StoredResults& results, const Paper& paper, const std::string& task) {
  std::vector<Reached> out;
  add_cut_short(results, paper, task, out);
  add_whole(results, paper, task, out);
  if (out.empty()) throw_nothing_stored(results, paper, task);
  if (task == "MNLI") out.push_back({.task = "MNLI-mm", .split = "dev", .backbone = out.front().backbone});
  return out;
}

}  // namespace exeunt
