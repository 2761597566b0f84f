// SPDX-License-Identifier: Apache-2.0
// What a stage of a recipe comes to for given data and flags: its rate and how many steps it has. No torch here.
#pragma once

#include "exeunt/train/run.h"
#include "exeunt/train/schedule.h"

namespace exeunt {

struct StagePlan {
  double lr = 0;
  int64_t batches = 0, steps = 0;  // of an epoch; of the stage
  Schedule schedule = {};
};

// Throws Error (usage) if an epoch is too short for one step.
[[nodiscard]] StagePlan plan_stage(const StageSpec& stage, const TrainingData& data, const TrainOptions& options,
                                   Family family);

}  // namespace exeunt
