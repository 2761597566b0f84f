// SPDX-License-Identifier: Apache-2.0
// The same results in the words of the five originals: the lines their programs printed and the files they wrote, so
// that scripts written around them keep working. Each defines "saving" or "speed-up" differently; here that
// happens on purpose and nowhere else.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/eval/scores.h"

namespace exeunt {

enum class View { deebert, pabee, elasticbert, romebert, elbert };

[[nodiscard]] std::string_view name_of(View view) noexcept;
[[nodiscard]] View view_named(std::string_view name);  // throws Error (usage) with the nearest name

// One setting over one data set, as measured.
struct ViewRun {
  PolicySpec policy;
  PolicyScore score;
  std::vector<int> layers;                // after which each exit of the model sits; the last is the model's depth
  std::vector<int> exit_layers;           // [rows] where each text left
  std::vector<std::string> answers = {};  // [rows] as label names or numbers; needed for a test split alone
  bool test = false;                      // a split without gold, answered for a server
  std::string task;                       // "MRPC"
  std::string checkpoint = {};            // "checkpoint-500", or empty
  double seconds = 0;                     // of the evaluation
};

// What the original prints once for every checkpoint, before its runs: "checkpoint-500", "final" or empty.
[[nodiscard]] std::string view_heading(View view, const std::string& checkpoint);

// What the original prints for this run, every line with its end. Throws Error (usage) for a policy that the original
// does not have.
[[nodiscard]] std::string view_lines(View view, const ViewRun& run);

// The files the original writes, in `folder`, which is created if needed: results and exit layers of a dev split,
// predictions of a test split (ElasticBERT, RomeBERT). Runs come in the order they were made; where the original
// overwrites, the last one stays.
void write_view_files(View view, const std::filesystem::path& folder, std::span<const ViewRun> runs);

// DeeBERT's arrays for its plots: entropy_{S}.npy of every run, and each_layer.npy. RomeBERT's are the same.
void write_deebert_arrays(const std::filesystem::path& folder, std::span<const ViewRun> runs,
                          std::span<const ExitScore> each_exit);

}  // namespace exeunt
