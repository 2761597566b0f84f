// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/check_data.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/data/dataset.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxDepth = 3;  // glue-data/GLUE/SST-2

// The folder's name, also if it was given as "." or with a trailing slash.
fs::path spelled_out(const fs::path& folder) {
  const fs::path full = fs::absolute(folder).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

DataState state_of(const SplitReport& report, int64_t slack) {
  if (report.problem_count > 0) return DataState::broken;
  if (report.rows < report.expected - slack) return DataState::incomplete;
  return report.rows > report.expected + slack ? DataState::oversized : DataState::complete;
}

SplitReport check_split(const Task& task, const SplitFile& file, const fs::path& folder) {
  SplitReport report;
  report.split = file.split;
  report.path = folder / file.file;
  report.expected = file.rows;
  const auto note = [&](const Error& error) {
    ++report.problem_count;
    if (report.problems.size() < kMaxProblems) report.problems.emplace_back(error.what());
  };
  try {
    const Dataset data = read_split(task, file.split, folder, note);
    report.rows = static_cast<int64_t>(data.examples.size());
    report.skipped = data.skipped;
    report.columns = data.columns;
    report.notices = data.notices;
    report.sha256 = data.sha256;
    if (data.labelled && data.problem != Problem::regression) {
      report.label_counts.assign(data.labels.size(), 0);
      for (const Example& example : data.examples) ++report.label_counts[static_cast<size_t>(example.gold)];
    }
  } catch (const Error& error) {  // an error of the file, not of a row: no header, unreadable
    note(error);
  }
  report.state = state_of(report, file.slack);
  return report;
}

// The tasks of one suite that have a file in `folder`, judging by its name.
std::vector<TaskReport> check_folder(const fs::path& folder, Suite suite) {
  std::vector<TaskReport> out;
  const std::string name = plain_name(spelled_out(folder).filename().string());
  for (const Task& task : all_tasks()) {
    const auto fits = [&](std::string_view known) { return plain_name(known) == name; };
    if (task.suite != suite || std::none_of(task.folders.begin(), task.folders.end(), fits)) continue;
    TaskReport report{&task, folder, {}, {}};
    for (const SplitFile& file : task.splits) {
      if (path_exists(folder / file.file)) {
        report.splits.push_back(check_split(task, file, folder));
      } else {
        report.missing.emplace_back(file.file);
      }
    }
    if (!report.splits.empty()) out.push_back(std::move(report));
  }
  return out;
}

// How well the files fit a suite: complete files count for it, files with errors against it.
int fit(const std::vector<TaskReport>& reports) {
  int sum = 0;
  for (const TaskReport& report : reports) {
    for (const SplitReport& split : report.splits) {
      sum += split.state == DataState::complete ? 2 : split.state == DataState::broken ? -2 : 0;
    }
  }
  return sum;
}

// Names that both suites use are ambiguous; their neighbours and parent folders decide.
bool among_elue(const fs::path& folder) {
  const fs::path parent = spelled_out(folder).parent_path();
  if (plain_name(parent.filename().string()).find("elue") != std::string::npos) return true;
  const auto has = [&](std::string_view name) { return path_exists(parent / name); };
  return (has("IMDb") || has("SNLI") || has("SciTail")) && !has("CoLA") && !has("RTE") && !has("QNLI");
}

std::vector<TaskReport> check_task_folder(const fs::path& folder) {
  std::vector<TaskReport> glue = check_folder(folder, Suite::glue);
  std::vector<TaskReport> elue = check_folder(folder, Suite::elue);
  if (elue.empty()) return glue;
  if (glue.empty()) return elue;
  const int difference = fit(glue) - fit(elue);
  if (difference != 0) return difference > 0 ? glue : elue;
  return among_elue(folder) ? elue : glue;
}

void collect(const fs::path& folder, int depth, std::vector<TaskReport>& out) {
  std::vector<TaskReport> found = check_task_folder(folder);
  if (!found.empty()) {
    std::move(found.begin(), found.end(), std::back_inserter(out));
    return;
  }
  if (depth == kMaxDepth) return;
  std::set<fs::path> children;  // in the order of their names
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (!hidden && entry->is_directory(ignored)) children.insert(entry->path());
  }
  for (const fs::path& child : children) collect(child, depth + 1, out);
}

}  // namespace

std::string_view name_of(DataState state) noexcept {
  constexpr std::array<std::string_view, 4> names = {"complete", "incomplete", "oversized", "broken"};
  return names[static_cast<size_t>(state)];
}

DataState TaskReport::state() const noexcept {
  DataState worst = missing.empty() ? DataState::complete : DataState::incomplete;
  for (const SplitReport& split : splits) worst = std::max(worst, split.state);
  return worst;
}

bool DataReport::broken() const noexcept {
  return std::any_of(tasks.begin(), tasks.end(), [](const auto& task) { return task.state() == DataState::broken; });
}

DataReport check_data(const fs::path& folder) {
  DataReport report;
  collect(folder, 0, report.tasks);
  return report;
}

}  // namespace exeunt
