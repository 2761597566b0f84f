// SPDX-License-Identifier: Apache-2.0
// Submission files for the GLUE and ELUE servers. All but write_glue_submission are pure functions of predictions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exeunt/data/task.h"
#include "exeunt/model/spec.h"
#include "exeunt/predict/answer_lines.h"

namespace exeunt {

// A model's predictions for a test split, in the order of its file.
struct TestAnswers {
  const Task* task = nullptr;
  std::vector<std::string> labels;  // of the model, in its index order; empty for a regression
  std::vector<float> predicted;     // label index or value, one for every row of the complete test file
};

// One file of the submission: "index\tprediction", then a row per example. Labels are written by name, whatever their
// order in the model; similarities are clamped to their range and have three decimals. Throws Error bad_file for a
// wrong number of rows, for labels the task does not have, and for non-finite values.
[[nodiscard]] std::string glue_table(const TestAnswers& answers);

struct GlueSubmission {
  std::string zip;
  std::vector<std::string>
      filled;  // files of tasks without predictions, filled with the task's first label or lowest value
};

// The zip with all of GLUE's files, flat. The server requires all of them, so tasks without predictions are filled.
[[nodiscard]] GlueSubmission glue_submission(std::span<const TestAnswers> answers);

// Writes the zip atomically; returns what was filled.
std::vector<std::string> write_glue_submission(const std::filesystem::path& path, std::span<const TestAnswers> answers);

struct ElueRun {
  TestAnswers answers;
  int hidden = 0;
  std::vector<ExitModule> exits;  // the evaluated ones, ascending
  std::vector<int> tokens;        // per example, without padding
  std::vector<int> layers;        // per example, the layer after which it exited: one of the exits
};

// The modules one example ran, as modules_run() writes them.
[[nodiscard]] std::string elue_modules(const ElueRun& run, size_t example);

// ELUE's test file: index, pred, modules. Throws like glue_table.
[[nodiscard]] std::string elue_table(const ElueRun& run);

[[nodiscard]] std::string elue_exit_layers(const ElueRun& run);  // "index\texit_layer", then a row per example
[[nodiscard]] std::string elue_lengths(const ElueRun& run);      // no header: length and layers of each example

struct StoredFile {
  std::string name;  // plain ASCII, no folders
  std::string content;
};

// The whole archive. Times are 1 January 1980, so equal files give equal archives. Files and archive stay under 4 GiB,
// which the caller guarantees.
[[nodiscard]] std::string zip_stored(std::span<const StoredFile> files);

// Throws Error (usage) for exits with readers, which ELUE's modules have no name for.
[[nodiscard]] std::string elue_module_file(const ModelSpec& spec, const ExitLayout& exits);

}  // namespace exeunt
