// SPDX-License-Identifier: Apache-2.0
// What the stages of a plan come to for given rows: steps, work and time; and what a whole run has settled on. No torch
// here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/train/run.h"

namespace exeunt {

// The learning rate over the steps of a stage: linear warm-up from 0, then linear decay to 0.
struct Schedule {
  int64_t steps = 1;  // T
  double warmup = 0;  // W, in steps; may be a fraction

  // What the rate of step k (from 0) is multiplied by: k / W below W, then (T − k) / (T − W).
  [[nodiscard]] double at(int64_t step) const noexcept {
    const auto k = static_cast<double>(step), total = static_cast<double>(steps);
    if (k < warmup) return k / std::max(1.0, warmup);
    return std::max(0.0, (total - k) / std::max(1.0, total - warmup));
  }
};

struct StagePlan {
  double lr = 0;
  int64_t batches = 0, steps = 0;  // of an epoch; of the stage
  Schedule schedule = {};
};

// A run as it begins, for the summary.
struct RunStart {
  const std::vector<StagePlan>& stages;
  const ExitLayout& exits;
  std::string device;     // as LibTorch calls it: cpu, cuda:0
  std::string precision;  // that was chosen: fp32 or bf16
  std::string torch;      // LibTorch's version
  int threads = 1;        // on the CPU
  int processes = 1;
  std::optional<double> seconds = {};             // that the steps will take, where it was estimated
  std::optional<double> deterministic_cost = {};  // how many times as long they take because they repeat
};

// Throws Error (usage) if an epoch is too short for one step.
[[nodiscard]] StagePlan plan_stage(const StageSpec& stage, int64_t rows, const TrainPlan& plan);

// How much work a training is, over all stages: optimiser steps, texts that go through the model, and their cost in
// texts of a stage that trains everything.
struct Workload {
  int64_t steps = 0, texts = 0;
  double cost = 0;
};
[[nodiscard]] Workload workload_of(int64_t rows, const TrainPlan& plan);

// How long a text takes to train on with these options, from a few steps in a folder below `options.out` that is
// removed again.
[[nodiscard]] double seconds_per_text(const Checkpoint& base, const TrainingData& data, TrainOptions options);

}  // namespace exeunt
