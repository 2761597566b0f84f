// SPDX-License-Identifier: Apache-2.0
// Labelled texts in memory, and the reader of GLUE's and ELUE's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/data/task.h"
#include "exeunt/outputs/problem.h"

namespace exeunt {

// Larger files are rejected before anything is read.
inline constexpr uint64_t kMaxDataBytes = uint64_t{1} << 33;

struct Example {
  std::string text;
  std::optional<std::string> pair;
  float gold = 0;               // label index or value; NaN if the file has no labels; 0 for multi_label
  std::vector<int> given = {};  // multi_label: indices of this row's labels, ascending
  int64_t index = 0;            // row in the file, from 0, header not counted
  // What the row belongs to, of the column that the user names; empty = nothing, null: no column was named.
  std::optional<std::string> cluster = {};
};

// Rows of one cluster are not independent draws: those with the same first text of a pair, if no column was named.
// Empty for a row that belongs to none.
[[nodiscard]] inline std::string_view cluster_of(const Example& example) noexcept {
  if (example.cluster) return *example.cluster;
  return example.pair ? std::string_view(example.text) : std::string_view();
}

struct Dataset {
  std::string task;   // name in the table; empty for user data
  std::string split;  // "train", "dev", "test", "held-out"; empty for user data
  Problem problem = Problem::classification;
  bool labelled = false;
  std::vector<std::string> labels;                 // in index order; empty for regression
  std::optional<std::pair<double, double>> range;  // of regression values
  std::vector<Example> examples;
  std::vector<std::string> columns;  // the header; empty if there is none
  std::vector<std::string> notices;  // decisions the reader made for the user
  int64_t skipped = 0;               // skipped rows
  std::string sha256;                // of the file's bytes
  std::string where;                 // the file, for messages
};

// Appends the gold of a row: its label's index or its value; of multi_label 1 for each label that it has, else 0; NaN
// where it is not known.
void append_gold(const Dataset& data, const Example& example, std::vector<float>& gold);

// Called for an unusable row, which is then skipped and counted. Without it the first such row is an Error.
using OnBadRow = std::function<void(const Error&)>;

// One split from `folder`, which is the task's own folder or the one above it. Throws Error: usage if the task has no
// such split, bad_file for a missing or invalid file, with line and column.
[[nodiscard]] Dataset read_split(const Task& task, Split split, const std::filesystem::path& folder,
                                 const OnBadRow& on_bad_row = {});

// The file that read_split reads, if it exists.
[[nodiscard]] std::optional<std::filesystem::path> find_split(const Task& task, Split split,
                                                              const std::filesystem::path& folder);

// The same for bytes in memory; `where` prefixes error messages.
[[nodiscard]] Dataset parse_split(const Task& task, Split split, std::string_view bytes, const std::string& where,
                                  const OnBadRow& on_bad_row = {});

// Maps gold to another label order, by name: a model keeps the order it was trained with. Throws Error bad_file if
// a label that occurs in the data is not in `labels`.
void reorder_labels(Dataset& data, const std::vector<std::string>& labels);

}  // namespace exeunt
