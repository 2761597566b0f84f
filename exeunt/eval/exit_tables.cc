// SPDX-License-Identifier: Apache-2.0
// Scores of exits: every exit of every recipe, models cut short, and exits beside those of a plain PyTorch loop.
#include <algorithm>
#include <compare>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/files.h"
#include "exeunt/eval/table_kinds.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 3> kCutShort{"SST-2", "MRPC", "STS-B"};

ResultTable exit_table(const StoredResults& results, std::string_view task, bool subset) {
  ResultTable table{.header = layer_header({"recipe", "seeds"})};
  const std::string names =
      task == "CoLA" ? "Matthews' correlation" : fmt::format("{}", fmt::join(measures_of(task), " and "));
  table.title = fmt::format("{}: {}{}", task, names, subset ? ", a subset of the training rows" : "");
  for (const std::string_view recipe : kGridRecipes) {
    const auto found = runs_of(results, task, recipe);
    if (found.empty()) continue;
    std::map<int, std::vector<double>> at;
    for (const StoredRun* run : found) {
      for (const StoredRun::Exit& exit : run->exits) {
        std::vector<double>& scores = at[exit.layer];
        if (const auto score = score_of(task, exit)) scores.push_back(*score);
      }
    }
    std::vector<Cell> row{in_marks(recipe), count_cell(found.size())};
    for (int layer = 1; layer <= kGridLayers; ++layer) row.push_back(at.contains(layer) ? mean_cell(at[layer]) : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct Place {  // a column of the table beside PyTorch: a task, as its number in kWholeTasks, and a layer
  size_t task;
  int layer;
  auto operator<=>(const Place&) const = default;
};

struct Gap {
  double ours, given;
};

// A cell of reference.json is shown where the grid has runs of its recipe.
using Gaps = std::map<std::string, std::map<Place, Gap>>;  // by recipe

Gaps read_gaps(const StoredResults& results, const fs::path& path) {
  const std::vector<std::string> tasks(kWholeTasks.begin(), kWholeTasks.end());
  const std::vector<std::string> recipes(kGridRecipes.begin(), kGridRecipes.end());
  Gaps gaps;
  for (const Json& cell : read_result_list(path, "scores")) {
    JsonObject object(cell, path.string());
    const std::string task = object.choice("task", tasks), recipe = object.choice("recipe", recipes);
    const int layer = static_cast<int>(object.integer("layer", 1, kMaxLayers));
    const double given = object.number("score");
    std::vector<double> ours;
    for (const StoredRun* run : runs_of(results, task, recipe)) {
      for (const StoredRun::Exit& exit : run->exits) {
        const auto score = exit.layer == layer ? score_of(task, exit) : std::nullopt;
        if (score) ours.push_back(*score);
      }
    }
    const auto number = static_cast<size_t>(std::find(tasks.begin(), tasks.end(), task) - tasks.begin());
    if (const auto mean = mean_of(ours)) gaps[recipe][{number, layer}] = {*mean, given};
  }
  return gaps;
}

}  // namespace

ResultTables exit_tables(const StoredResults& results) {
  ResultTables tables;
  for (const std::string_view task : kWholeTasks) tables.push_back(exit_table(results, task, false));
  for (const std::string_view task : kSubsetTasks) tables.push_back(exit_table(results, task, true));
  std::erase_if(tables, [](const ResultTable& table) { return table.rows.empty(); });
  return tables;
}

ResultTables cut_short_tables(const StoredResults& results) {
  ResultTable table{.header = layer_header({"task"})};
  for (const std::string_view task : kCutShort) {
    std::map<int, double> found;
    for (const StoredRun& run : results.runs) {
      if (run.task != fmt::format("elue-{}", task) || run.exits.empty()) continue;
      if (const auto score = score_of(task, run.exits.back())) found[run.layers] = *score;
    }
    if (found.empty()) continue;
    std::vector<Cell> row{std::string(task)};
    for (int layer = 1; layer <= kGridLayers; ++layer)
      row.push_back(found.contains(layer) ? one_digit(found[layer]) : "");
    table.rows.push_back(std::move(row));
  }
  return table.rows.empty() ? ResultTables{} : ResultTables{table};
}

ResultTables beside_tables(const StoredResults& results) {
  const fs::path path = results.folder / "reference.json";
  if (!path_exists(path)) return {};
  const Gaps gaps = read_gaps(results, path);
  std::set<Place> places;
  std::vector<double> differences;
  for (const auto& [recipe, of_recipe] : gaps) {
    for (const auto& [place, gap] : of_recipe) {
      places.insert(place);
      differences.push_back(gap.ours - gap.given);
    }
  }
  if (places.empty()) return {};
  ResultTable table{.header = {"recipe"}};
  table.remark =
      fmt::format("Over all {} cells the mean difference is {:+.2f}.", differences.size(), *mean_of(differences));
  for (const Place& place : places) table.header.push_back(fmt::format("{} L{}", kWholeTasks[place.task], place.layer));
  for (const std::string_view recipe : kGridRecipes) {
    const auto found = gaps.find(std::string(recipe));
    if (found == gaps.end()) continue;
    std::vector<Cell> row{in_marks(recipe)};
    for (const Place& place : places) {
      const auto gap = found->second.find(place);
      row.push_back(gap == found->second.end() ? "" : with_difference(gap->second.ours, gap->second.given));
    }
    table.rows.push_back(std::move(row));
  }
  return {table};
}

}  // namespace exeunt
