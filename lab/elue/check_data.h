// SPDX-License-Identifier: Apache-2.0
// Validates a folder of GLUE or ELUE data and reports rows, columns, labels, and every error with its position. A file
// with fewer rows than the complete one is incomplete, not broken: samples of a task are useful, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/inspect.h"
#include "exeunt/data/task.h"

namespace exeunt {

// From best to worst. `oversized`: more rows than the complete file has.
enum class DataState { complete, incomplete, oversized, broken };

[[nodiscard]] std::string_view name_of(DataState state) noexcept;

struct SplitReport {
  Split split = Split::train;
  std::filesystem::path path;
  DataState state = DataState::complete;
  int64_t rows = 0;      // usable examples
  int64_t expected = 0;  // in the complete file
  int64_t skipped = 0;   // skipped rows: QQP's short ones, and those with problems
  std::vector<std::string> columns;
  std::vector<int64_t> label_counts;  // per label of the task; empty for regression and without labels
  std::vector<std::string> notices;
  std::vector<std::string> problems;  // "file:line: …", at most kMaxProblems
  int64_t problem_count = 0;
  std::string sha256;
};

struct TaskReport {
  const Task* task = nullptr;
  std::filesystem::path folder;
  std::vector<SplitReport> splits;   // those found
  std::vector<std::string> missing;  // missing files

  // The worst of its files; incomplete if one is missing.
  [[nodiscard]] DataState state() const noexcept;
};

struct DataReport {
  std::vector<TaskReport> tasks;

  [[nodiscard]] bool broken() const noexcept;
};

// `folder` is a task's folder, one that contains task folders, or one above such folders. A folder name that GLUE and
// ELUE share is assigned to the suite whose sizes fit better. No task in the report: there is none.
[[nodiscard]] DataReport check_data(const std::filesystem::path& folder);

}  // namespace exeunt
