// SPDX-License-Identifier: Apache-2.0
// What a run leaves in its folder, in Hugging Face's tree: checkpoint-N, the trained model itself, run.json, log.jsonl,
// trainer_state.json, all_results.json, eval_results.json and eval_results.txt. No torch here.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

// Lines appended one by one, so that a killed run keeps what it had said.
class LogFile {
 public:
  // Starts anew with `entries`: what a resumed run already knew.
  LogFile(std::filesystem::path path, const OrderedJson& entries);
  void add(const OrderedJson& entry);

 private:
  std::filesystem::path path_;
};

// run.json: every setting of the run, from its first step on.
inline constexpr const char* kRunFile = "run.json";
void write_settings(const std::filesystem::path& out, const OrderedJson& configuration);

// A model folder inside `out` beside the checkpoints: the files take their places one by one, manifest.json last, so a
// folder with a manifest is a whole one. Behind it a model card, with the results that lie in `out`.
std::vector<std::string> write_trained(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                       const std::string& recipe);

// Whether a folder holds a run, finished or not.
[[nodiscard]] bool holds_run(const std::filesystem::path& out);
// Refuses such a folder. Throws Error (usage).
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
