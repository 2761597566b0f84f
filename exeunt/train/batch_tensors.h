// SPDX-License-Identifier: Apache-2.0
// Rows of features as tensors: padded to the longest row of the batch, or on to a multiple.
#pragma once

#include <span>

#include "exeunt/data/features.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {

// Lengths on a GPU: its attention copies a mask that is not a multiple of this.
inline constexpr int64_t kGpuTokens = 16;

struct BatchShape {
  int pad_id = 0;
  Problem problem = Problem::classification;
  torch::Device device = torch::kCPU;
  int64_t multiple = 1;    // of tokens …
  int64_t most = 1 << 30;  // … but not beyond this
};

[[nodiscard]] TrainBatch batch_tensors(const Features& features, std::span<const size_t> rows, const BatchShape& shape);

}  // namespace exeunt::nn
