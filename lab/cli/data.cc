// SPDX-License-Identifier: Apache-2.0
// `exeunt data check FOLDER` where the folder is GLUE's or ELUE's.
#include "apps/exeunt/output.h"
#include "lab/cli/verbs.h"
#include "lab/elue/check_data.h"

namespace exeunt::apps {
namespace {

OrderedJson as_json(const SplitReport& split) {
  OrderedJson out;
  out["split"] = std::string(name_of(split.split));
  out["file"] = split.path.string();
  out["state"] = std::string(name_of(split.state));
  out["rows"] = split.rows;
  out["expected_rows"] = split.expected;
  out["skipped_rows"] = split.skipped;
  out["columns"] = split.columns;
  out["label_counts"] = split.label_counts;
  out["notices"] = split.notices;
  out["problems"] = split.problems;
  out["problem_count"] = split.problem_count;
  out["sha256"] = split.sha256;
  return out;
}

OrderedJson as_json(const DataReport& report) {
  OrderedJson out;
  out["tasks"] = OrderedJson::array();
  for (const TaskReport& task : report.tasks) {
    OrderedJson row;
    row["task"] = std::string(task.task->name);
    row["suite"] = std::string(name_of(task.task->suite));
    row["folder"] = task.folder.string();
    row["state"] = std::string(name_of(task.state()));
    row["missing"] = task.missing;
    row["splits"] = OrderedJson::array();
    for (const SplitReport& split : task.splits) row["splits"].push_back(as_json(split));
    out["tasks"].push_back(std::move(row));
  }
  out["broken"] = report.broken();
  return out;
}

// "0: 428, 1: 444" for the labels of a task.
std::string label_text(const Task& task, const SplitReport& split) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < split.label_counts.size(); ++i) {
    parts.push_back(fmt::format("{}: {}", task.labels.at(i), split.label_counts[i]));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

void print_report(const DataReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      rows.push_back({std::string(task.task->name), split.path.filename().string(), fmt::format("{}", split.rows),
                      fmt::format("{}", split.expected), std::string(name_of(split.state)),
                      label_text(*task.task, split)});
    }
    for (const std::string& name : task.missing) {
      rows.push_back({std::string(task.task->name), name, "0", "", "missing", ""});
    }
  }
  print_table({"task", "file", "rows", "of", "state", "labels"}, rows);
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      print_problems(split.problems, split.problem_count, split.path.string());
    }
  }
}

}  // namespace

bool check_task_folder(const Common& common, const std::string& folder) {
  const DataReport report = check_data(folder);
  if (report.tasks.empty()) return false;
  common.json ? print_json(as_json(report)) : print_report(report);
  for (const TaskReport& task : report.tasks) {
    for (const SplitReport& split : task.splits) {
      for (const std::string& text : split.notices) notice(common, text);
    }
  }
  finish_output();
  if (report.broken()) {
    throw Error(Code::bad_file, fmt::format("{}: some files are broken", folder),
                "the lines above say where; download them again");
  }
  return true;
}

}  // namespace exeunt::apps
