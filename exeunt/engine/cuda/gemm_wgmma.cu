// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 by Hopper's tensor cores; see gemm_tiles.cuh.
#include "exeunt/engine/cuda/gemm_tiles.cuh"

namespace exeunt::cuda {

bool tensor_cores_fit(const Product& job, const Chip& chip) noexcept {
  return job.number == Number::bf16 && chip.hopper() && job.inputs % 8 == 0 && job.outputs % 8 == 0;
}

int chains_of(const Product& job) noexcept {
  return job.inputs >= 2048 ? kSplit : 1;
}

bool shape_fits(const Product& job, int shape) noexcept {
  const bool int8 = job.column_scale != nullptr;  // whose sums are exact in any order
  const bool many = chains_of(job) > 1;
  if (job.wide != nullptr) return shape >= 2 && shape <= 4;
  if (shape == kSplitShape) return many || (int8 && job.inputs >= 2048);
  return int8 || !many || (shape >= 1 && shape <= 4);
}

void multiply_by_tensor_cores(const Product& job, const Chip& chip, int shape, Stream stream) {
  launch_shape<float>(job, chip, shape, stream);
}

}  // namespace exeunt::cuda
