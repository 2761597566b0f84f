// SPDX-License-Identifier: Apache-2.0
// What a run leaves in its folder, in Hugging Face's tree: checkpoint-N, the trained model itself, run.json, log.jsonl,
// trainer_state.json, all_results.json, eval_results.json and eval_results.txt. No torch here.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/train/stage_plan.h"

namespace exeunt {

// log.jsonl, one line at a time, so that a killed run keeps what it had logged.
inline constexpr const char* kLogFile = "log.jsonl";
class RunLog {
 public:
  // Starts log.jsonl anew with `entries`: what a resumed run already knew.
  RunLog(const std::filesystem::path& out, const OrderedJson& entries);
  void add(const OrderedJson& entry);

 private:
  std::filesystem::path path_;
};

// What a run is, for its files.
struct RunFacts {
  const TrainingData& data;
  const TrainOptions& options;
  const std::vector<StagePlan>& plans;
  std::string base;  // sha256 of the weights it starts from
  std::string device, torch;
  int processes = 1;
};
// All that must be the same for a resumed run to continue the one before.
[[nodiscard]] OrderedJson run_configuration(const RunFacts& facts);
// The text of the trained folder's recipe.json.
[[nodiscard]] std::string recipe_text(const RunFacts& facts);

// The first setting in which two configurations differ, as "field: the checkpoint has X, this run Y"; empty if none. A
// setting that is newer than the stored configuration counts there with its default.
[[nodiscard]] std::string settings_difference(const OrderedJson& stored, const OrderedJson& now);

// Throws Error (usage) if they differ.
void require_same_settings(const std::string& checkpoint, const OrderedJson& stored, const OrderedJson& now);
// Calls `load` for the checkpoints in `out`, the newest first, until it succeeds; damaged ones are named and skipped.
// Whether one was loaded. Throws the usage errors of `load`.
bool load_newest(const std::filesystem::path& out, const Notice& notice,
                 const std::function<void(const std::filesystem::path&)>& load);

// run.json: every setting of the run, from its first step on, and where the values of the recipe come from.
inline constexpr const char* kRunFile = "run.json";
void write_settings(const std::filesystem::path& out, const OrderedJson& configuration, const OrderedJson& values = {});

// Creates `out` for a run, without an earlier run (unless it is resumed) and without what a killed one was still
// writing. Throws Error: usage if it holds a run that may not be overwritten.
void prepare_folder(const std::filesystem::path& out, bool resume, bool overwrite);

// Removes all checkpoints but the newest `keep` (0 = keep all), and what a killed run was still writing.
void remove_older_checkpoints(const std::filesystem::path& out, int keep);
void remove_partial(const std::filesystem::path& out);

// Weights and what tells of their training.
struct SavedWeights {
  Checkpoint checkpoint;
  std::string recipe;  // text of recipe.json
  const LearnedRows& learned;
};

// A model folder inside `out` beside the checkpoints: the files take their places one by one, manifest.json last, so a
// folder with a manifest is a whole one. Behind it a model card, with the results that lie in `out`.
std::vector<std::string> write_trained(const SavedWeights& weights, const std::filesystem::path& out);

// Refuses a folder that holds a run, finished or not. Throws Error (usage).
void require_free(const std::filesystem::path& out);

// Takes an earlier run out of a folder: its checkpoints and logs, and the manifest, without which the rest is no model.
// Files of others stay.
void remove_run(const std::filesystem::path& out);

// eval_accuracy … of the last exit, and each exit's scores under "exits".
[[nodiscard]] OrderedJson eval_entry(const std::vector<ExitScore>& exits);

// all_results.json and its parts: keys that start with eval_ and train_; "epoch" and "exits" go where they belong.
void write_results(const std::filesystem::path& out, const OrderedJson& results);

// "▁▃▅▇", one mark per exit from `low` to `high`.
[[nodiscard]] std::string sparkline(const std::vector<double>& values);

}  // namespace exeunt
