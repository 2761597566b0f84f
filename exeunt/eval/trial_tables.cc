// SPDX-License-Identifier: Apache-2.0
// What was tried to make the recipe `exeunt` better: changes measured on held-out rows (benchmarks/trials), and its
// objective on every task's dev set.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/eval/table_kinds.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 2> kTrialTasks{"MRPC", "RTE"};
constexpr size_t kTrialSeeds = 3;                  // a change counts where it was measured with so many on both tasks
constexpr std::string_view kTrialAgainst = "sum";  // the change that is none

// Scores at the last exit and on average over all of them, a value for each seed.
struct Ends {
  std::vector<double> last, all;
};

struct Change {
  std::string name;
  std::map<std::string, Ends> by_task;  // its name is kept as the file spells it

  [[nodiscard]] double last(std::string_view task) const { return *mean_of(by_task.at(std::string(task)).last); }
  [[nodiscard]] double all(std::string_view task) const { return *mean_of(by_task.at(std::string(task)).all); }
};

void read_trial(const std::filesystem::path& path, std::vector<Change>& changes) {
  const Json value = read_result(path);
  const std::string where = path.string();
  JsonObject object(value, where);
  const std::string task = object.string("task"), name = object.string("change");
  std::vector<double> scores;
  for (const StoredRun::Exit& exit : read_exits(object.get("exits"), where)) {
    const auto score = score_of(task, exit);
    if (!score) {
      throw_bad_file(where, "exit {}: got no {}, want a number", exit.layer, fmt::join(measures_of(task), " and no "));
    }
    scores.push_back(*score);
  }
  if (scores.empty()) throw_bad_file(where, "field 'exits': got an empty list, want at least one exit");
  auto change = std::find_if(changes.begin(), changes.end(), [&](const Change& known) { return known.name == name; });
  if (change == changes.end()) change = changes.insert(changes.end(), Change{name, {}});
  change->by_task[task].last.push_back(scores.back());
  change->by_task[task].all.push_back(*mean_of(scores));
}

bool is_whole(const Change& change) {
  return std::all_of(kTrialTasks.begin(), kTrialTasks.end(), [&](std::string_view task) {
    const auto found = change.by_task.find(std::string(task));
    return found != change.by_task.end() && found->second.last.size() == kTrialSeeds;
  });
}

struct Gains {
  double last, all;
};

// On average over the tasks.
Gains gains_of(const Change& change, const Change& against) {
  std::vector<double> last, all;
  for (const std::string_view task : kTrialTasks) {
    last.push_back(change.last(task) - against.last(task));
    all.push_back(change.all(task) - against.all(task));
  }
  return {*mean_of(last), *mean_of(all)};
}

// Runs of `exeunt` with this objective, on dev.
Ends ends_on_dev(const std::vector<const StoredRun*>& runs, std::string_view task, std::string_view objective) {
  Ends ends;
  for (const StoredRun* run : runs) {
    if (run->task != task || run->objective != objective || run->exits.empty()) continue;
    std::vector<double> scores;
    for (const StoredRun::Exit& exit : run->exits) {
      if (const auto score = score_of(task, exit)) scores.push_back(*score);
    }
    if (const auto score = score_of(task, run->exits.back())) ends.last.push_back(*score);
    if (const auto mean = mean_of(scores)) ends.all.push_back(*mean);
  }
  return ends;
}

}  // namespace

ResultTables trial_tables(const StoredResults& results) {
  std::vector<Change> changes;
  for (const auto& path : result_files(results.folder / "trials")) read_trial(path, changes);
  std::erase_if(changes, [](const Change& change) { return !is_whole(change); });
  if (changes.empty()) return {};
  const auto found =
      std::find_if(changes.begin(), changes.end(), [](const Change& change) { return change.name == kTrialAgainst; });
  if (found == changes.end()) {
    throw_bad_file((results.folder / "trials").string(),
                   "got no change '{}' with {} seeds on {}, want what others gain against", kTrialAgainst, kTrialSeeds,
                   fmt::join(kTrialTasks, " and "));
  }
  const Change against = *found;
  std::stable_sort(changes.begin(), changes.end(), [&](const Change& a, const Change& b) {
    const bool a_first = a.name == kTrialAgainst, b_first = b.name == kTrialAgainst;
    return a_first != b_first ? a_first : gains_of(a, against).last > gains_of(b, against).last;
  });
  ResultTable table{.header = {"change", "MRPC, last exit", "all exits", "RTE, last exit", "all exits",
                               "gain, last exit", "all exits"}};
  for (const Change& change : changes) {
    std::vector<Cell> row{change.name};
    for (const std::string_view task : kTrialTasks)
      row.insert(row.end(), {one_digit(change.last(task)), one_digit(change.all(task))});
    const Gains gains = gains_of(change, against);
    row.insert(row.end(), {with_sign(gains.last), with_sign(gains.all)});
    table.rows.push_back(std::move(row));
  }
  return {table};
}

ResultTables objective_tables(const StoredResults& results) {
  std::vector<StoredRun> more;  // with the objective that the recipe does not take for their task
  for (const auto& path : result_files(results.folder / "objectives")) more.push_back(read_run(path));
  if (more.empty()) return {};
  std::vector<const StoredRun*> runs;
  for (const StoredRun& run : results.runs) runs.push_back(&run);
  for (const StoredRun& run : more) runs.push_back(&run);
  std::erase_if(runs, [](const StoredRun* run) { return run->recipe != "exeunt"; });
  ResultTable table{.header = {"task", "`sum`, last exit", "all exits", "`linear`, last exit", "all exits"}};
  for (const std::string_view task : kWholeTasks) {
    std::vector<Cell> row{std::string(task)};
    for (const std::string_view objective : {"sum", "linear"}) {
      const Ends ends = ends_on_dev(runs, task, objective);
      row.insert(row.end(), {mean_cell(ends.last), mean_cell(ends.all)});
    }
    table.rows.push_back(std::move(row));
  }
  return {table};
}

}  // namespace exeunt
