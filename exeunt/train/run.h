// SPDX-License-Identifier: Apache-2.0
// Training from start to end, as a caller without torch sees it: data and options in, a folder and figures out.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/progress.h"
#include "exeunt/eval/scores.h"
#include "exeunt/recipes/train_plan.h"
#include "exeunt/train/inputs.h"

namespace exeunt {

struct RunStart;  // exeunt/train/stage_plan.h

struct TrainOptions : TrainPlan {
  std::filesystem::path out;
  std::vector<std::pair<std::string, std::string>> beside = {};  // more files for `out`: name and content
  ProgressStyle progress = {};
  Notice notice = {};
  bool estimate = false;                              // how long it will take, for `started`
  std::function<void(const RunStart&)> started = {};  // called once, by the first process, before the first step
  const std::atomic<bool>* stop = nullptr;            // set from outside: save a checkpoint and end
  // Makes of the trained model the one that is written, by what its exits say of training rows, at most so many, and of
  // all evaluation rows. Called once, by the first process; not without evaluation rows, and not where traces are kept.
  static constexpr size_t kMostToComplete = 20000;
  std::function<Checkpoint(const Checkpoint&, const TracedRows& train, const TracedRows& eval)> complete = {};
};

struct TrainResult {
  bool stopped = false;  // by `stop`, before the end; `out` can be resumed
  int64_t steps = 0;
  OrderedJson results;  // as all_results.json has them
};

// Throws Error. Whatever happens, the last good checkpoint in `out` stays.
TrainResult train(const Checkpoint& base, const TrainingData& data, const TrainOptions& options);

// Whether this process is alone or the first of those that train together: the one that prints.
[[nodiscard]] bool first_process();

// What this build of the trainer and this machine provide, for `exeunt doctor`.
struct TrainerAbout {
  std::string torch;                // LibTorch's version
  int gpus = 0;                     // that LibTorch can use
  bool gloo = false, nccl = false;  // ways for several processes to train together
};
[[nodiscard]] TrainerAbout about_trainer();

}  // namespace exeunt
