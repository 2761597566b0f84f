// SPDX-License-Identifier: Apache-2.0
// The tasks of GLUE and ELUE, as tasks.json lists them: files, columns, labels, metrics, sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/data/metrics.h"

namespace exeunt {

enum class Suite { glue, elue };
enum class Split { train, dev, test };

[[nodiscard]] std::string_view name_of(Suite suite) noexcept;
[[nodiscard]] std::string_view name_of(Split split) noexcept;
[[nodiscard]] Split split_named(std::string_view name);  // "dev", "validation", "eval" …; throws Error usage

inline constexpr int kLastColumn = -1;
inline constexpr int kNoColumn = -2;

// The position of a value in a row: the first of `names` in the header, else column `number` (from 0).
struct Column {
  std::vector<std::string_view> names;
  int number = kNoColumn;

  [[nodiscard]] bool wanted() const noexcept { return number != kNoColumn; }
};

// One file of a task. `rows` is how many examples the complete file has, give or take `slack`: QQP went through
// several releases that differ by a few rows.
struct SplitFile {
  Split split = Split::train;
  std::string_view file;
  Column text, pair, label;
  int64_t rows = 0;
  int64_t slack = 0;
  bool header = true;
};

struct Task {
  std::string_view name;  // "SST-2"; ELUE's are "elue/SST-2"
  Suite suite = Suite::glue;
  std::vector<std::string_view> aliases = {};  // in addition to the name, as plain_name() gives them
  std::vector<std::string_view> folders = {};  // where its files may be in the data folder
  std::vector<SplitFile> splits = {};
  std::vector<std::string> labels = {};                 // in index order; empty = regression
  std::optional<std::pair<double, double>> range = {};  // of regression values
  std::vector<Metric> metrics = {};
  Metric primary = Metric::accuracy;
  std::string_view submission = {};  // file in GLUE's zip; empty = none
  std::string_view model_of = {};    // answered by another task's model: MNLI's for MNLI-mm and AX
  bool skips_short_rows = false;     // QQP: the original systems skip rows with too few columns

  [[nodiscard]] bool regression() const noexcept { return labels.empty(); }
  [[nodiscard]] const SplitFile* find(Split split) const noexcept;
};

[[nodiscard]] std::string_view shipped_tasks(std::string_view name) noexcept;  // the file, compiled in

// All tasks: GLUE in the order of its submission, then ELUE.
[[nodiscard]] const std::vector<Task>& all_tasks();

// By name, without regard to case and punctuation: "sst2", "SST-2", "glue/sst-2"; "elue/sst-2", "elue_sst2". A name
// both suites have means GLUE's. `find_task` throws Error usage that names the nearest; `find_task_or_null` does not.
[[nodiscard]] const Task& find_task(std::string_view name);
[[nodiscard]] const Task* find_task_or_null(std::string_view name);

// Letters and digits only, in lower case: the form in which task and folder names are compared.
[[nodiscard]] std::string plain_name(std::string_view name);

// Refuses labels that the task does not have (bad_file), naming --labels, which renames a model's outputs.
void require_task_labels(const Task& task, const std::vector<std::string>& labels);

}  // namespace exeunt
