// SPDX-License-Identifier: Apache-2.0
// How long a training will take, measured by a few of its steps. No torch here.
#pragma once

#include "exeunt/train/run.h"

namespace exeunt {

// How long a text takes to train on with these options, from a few steps in a folder below `options.out` that is
// removed again.
[[nodiscard]] double seconds_per_text(const Checkpoint& base, const TrainingData& data, TrainOptions options);

}  // namespace exeunt
