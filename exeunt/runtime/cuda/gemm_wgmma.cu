// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 by Hopper's tensor cores; see gemm_tiles.cuh.
#include "exeunt/runtime/cuda/gemm_tiles.cuh"

namespace exeunt::cuda {

bool tensor_cores_fit(const Product& job, const Chip& chip) noexcept {
  return job.number == Number::bf16 && chip.hopper() && job.inputs % 8 == 0 && job.outputs % 8 == 0;
}

void multiply_by_tensor_cores(const Product& job, const Chip& chip, int shape, Stream stream) {
  launch_shape<float>(job, chip, shape, stream);
}

}  // namespace exeunt::cuda
