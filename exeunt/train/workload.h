// SPDX-License-Identifier: Apache-2.0
// How much work a training is, before any of it is done. No torch here.
#pragma once

#include <cstdint>

#include "exeunt/train/run.h"

namespace exeunt {

// Over all stages: optimiser steps, and texts that go through the model.
struct Workload {
  int64_t steps = 0, texts = 0;
};

// Throws Error (usage) if an epoch is too short for one step.
[[nodiscard]] Workload workload_of(const Checkpoint& base, const TrainingData& data, const TrainOptions& options);

}  // namespace exeunt
