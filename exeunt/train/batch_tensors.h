// SPDX-License-Identifier: Apache-2.0
// Rows of features as tensors: padded to the longest row of the batch and no further.
#pragma once

#include <span>

#include "exeunt/data/features.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {

struct BatchShape {
  int pad_id = 0;
  bool regression = false;
  torch::Device device = torch::kCPU;
};

[[nodiscard]] TrainBatch batch_tensors(const Features& features, std::span<const size_t> rows, const BatchShape& shape);

}  // namespace exeunt::nn
