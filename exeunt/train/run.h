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
#include "exeunt/data/features.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/tasks/metrics.h"
#include "exeunt/tasks/user_data.h"
#include "exeunt/train/recipe.h"

namespace exeunt {

// More rows to evaluate at the end: MNLI's second dev set ("mm"), texts to choose a threshold on.
struct ExtraSet {
  std::string name;
  Features features;
};

struct TrainingData {
  Features train, eval;  // gold of both in the order of outcome.labels
  std::vector<ExtraSet> also = {};
  Outcome outcome;
  std::string task;  // name in the table of tasks; empty for the user's own data
  std::vector<Metric> metrics;
  Metric primary = Metric::accuracy;
  std::optional<UserColumns> columns = {};  // of the user's own file, as recipe.json keeps them
};

struct RunStart;  // exeunt/train/stage_plan.h

struct TrainOptions {
  std::filesystem::path out;
  Recipe recipe;
  int64_t seed = 42;
  int64_t max_steps = 0;     // of each stage; 0 = as many as its epochs have
  int accumulation = 1;      // micro-batches of a step
  int window = 50;           // batches sorted by length together; 0 = plain shuffling
  int log_every = 50;        // optimiser steps between two lines of the log
  int save_every = 500;      // optimiser steps between two checkpoints; 0 = none
  int keep_checkpoints = 2;  // older ones are removed; 0 = all are kept
  bool trace = false;        // keep the logits of what is evaluated at the end: trace-NAME.safetensors
  bool resume = false;       // go on from the newest checkpoint in `out` that is whole
  bool overwrite = false;    // `out` may hold an earlier run, which is removed
  double adam_epsilon = 1e-8;
  double warmup_steps = -1;                                      // instead of the recipe's share; −1 = the recipe's
  bool whole_warmup = false;                                     // round the recipe's share of steps down
  int threads = 0;                                               // 0 = torch's choice
  std::string device = "auto";                                   // auto, cpu, cuda
  std::string precision = "fp32";                                // fp32, or bf16 on CUDA
  bool graphs = true;                                            // on CUDA: record whole steps and play them
  std::vector<std::pair<std::string, std::string>> beside = {};  // more files for `out`: name and content
  ProgressStyle progress = {};
  std::function<void(std::string_view)> notice = {};
  std::function<void(const RunStart&)> started = {};  // called once, by the first process, before the first step
  const std::atomic<bool>* stop = nullptr;            // set from outside: save a checkpoint and end
};

struct TrainResult {
  bool stopped = false;  // by `stop`, before the end; `out` can be resumed
  int64_t steps = 0;
  OrderedJson results;  // as all_results.json has them
};

// Throws Error. Whatever happens, the last good checkpoint in `out` stays.
TrainResult train(const Checkpoint& base, const TrainingData& data, const TrainOptions& options);

// Whether this process is alone or the first of those that train together: the one that speaks to the user.
[[nodiscard]] bool first_process();

}  // namespace exeunt
