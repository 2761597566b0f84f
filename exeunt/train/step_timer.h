// SPDX-License-Identifier: Apache-2.0
// How long a run will take, from a few batches timed before its first step; nothing is learned from them.
#pragma once

#include <optional>
#include <vector>

#include "exeunt/train/batch_tensors.h"
#include "exeunt/train/network.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/world.h"

namespace exeunt::nn {

struct StepTimer {
  Network network;
  const TrainingData& data;
  const TrainOptions& options;
  const std::vector<StagePlan>& plans;
  const World& world;
  BatchShape shape;

  // Of all steps of all stages, judged by one batch of usual size.
  [[nodiscard]] double seconds() const;
  // How many times as long steps take that repeat bit for bit; nothing where they take the same operations.
  [[nodiscard]] std::optional<double> deterministic_cost() const;
};

}  // namespace exeunt::nn
