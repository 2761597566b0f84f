// SPDX-License-Identifier: Apache-2.0
// Matrix products of int8 by Hopper's tensor cores, and how rows become int8; see gemm_tiles.cuh.
#include "exeunt/engine/cuda/gemm_tiles.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kWarps = 8;

// One warp per row: the largest |x| becomes 127.
__global__ void __launch_bounds__(kWarps * 32) quantize_rows(QuantizeJob job) {
  const int lane = static_cast<int>(threadIdx.x) % 32, rows = job.live->rows;
  for (int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32; row < rows;
       row += static_cast<int>(gridDim.x) * kWarps) {
    const bf16* from = static_cast<const bf16*>(job.rows) + static_cast<size_t>(row) * static_cast<size_t>(job.columns);
    float most = 0;
#pragma unroll 4
    for (int c = lane * 8; c < job.columns; c += 256) {
      const Eight x = load_eight(from + c);
#pragma unroll
      for (float v : x.v) most = fmaxf(most, fabsf(v));
    }
    most = warp_max(most);
    const float scale = int8_scale(most), inverse = 1.0F / scale;
    int8_t* to = job.out + static_cast<size_t>(row) * static_cast<size_t>(job.columns);
#pragma unroll 4
    for (int c = lane * 8; c < job.columns; c += 256)  // still in the cache
      *reinterpret_cast<uint2*>(to + c) = int8_of(load_eight(from + c), inverse);
    if (lane == 0) job.scale[row] = scale;
  }
}

}  // namespace

bool int8_fits(int inputs, int outputs, const Chip& chip) noexcept {
  return chip.hopper() && inputs % 16 == 0 && outputs % 8 == 0;
}

void multiply_int8(const Product& job, const Chip& chip, int shape, Stream stream) {
  launch_shape<int>(job, chip, shape, stream);
}

void quantize(const QuantizeJob& job, Stream stream) {
  const unsigned blocks = std::min(kMostBlocks, blocks_of(static_cast<size_t>(job.max_rows), kWarps));
  quantize_rows<<<blocks, kWarps * 32, 0, stream>>>(job);
  check_launch("starting to quantize rows");
}

}  // namespace exeunt::cuda
