// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 by Hopper's tensor cores; see gemm_tiles.cuh.
#include "exeunt/runtime/cuda/gemm_tiles.cuh"

namespace exeunt::cuda {
namespace {

// 64 rows by a warpgroup for each chain.
template <int kColumns, int kStageCount>
__global__ void __launch_bounds__(ChainLayout<kColumns, kStageCount>::kThreads, 1)
    chained_product(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap weight,
                    Shape shape) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = ChainLayout<kColumns, kStageCount>;
  extern __shared__ uint8_t memory[];
  Stages<L> stages(memory, 4);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rows = shape.live->rows;
  const int across = (shape.outputs + kColumns - 1) / kColumns;
  const int row = static_cast<int>(blockIdx.x) / across * L::kRows;
  const int column = static_cast<int>(blockIdx.x) % across * kColumns;
  if (row >= rows) return;
  const int slices = (shape.inputs + kSliceInputs<float> - 1) / kSliceInputs<float>;
  // Slices come in turns, one of each chain; a chain that is over gets none.
  const int longest = (slices + kChains - 1) / kChains;
  const int chain = warp / 4;
  if (warp == kChains * 4) {
    if (lane != 0) return;
    for (int turn = 0; turn < longest; ++turn) {
      for (int c = 0; c < kChains; ++c) {
        const int slice = chain_begin(slices, c) + turn;
        if (slice < chain_begin(slices, c + 1)) stages.copy(input, weight, slice * kSliceInputs<float>, row, column);
      }
    }
    return;
  }
  float sum[kColumns / 2];
  int before = -1;
  for (int turn = 0; turn < longest; ++turn) {
    for (int c = 0; c < kChains; ++c) {
      if (chain_begin(slices, c) + turn >= chain_begin(slices, c + 1)) continue;
      if (c == chain) {
        stages.template multiply<kColumns>(sum, 0, turn > 0);
        wgmma_wait<1>();
        if (before >= 0 && lane == 0) barrier_arrive(stages.empty + before);
        before = stages.at;
      }
      stages.advance();
    }
  }
  wgmma_wait<0>();
  // The others hand their sums to the first warpgroup, which adds them in order. Nothing is copied any more, so that
  // the stages have room.
  float* sums = reinterpret_cast<float*>(stages.staging + 4 * 16 * L::kChunkRow);
  const int thread = static_cast<int>(threadIdx.x) % 128;
  if (chain > 0) {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[((chain - 1) * kColumns / 2 + i) * 128 + thread] = sum[i];
  }
  asm volatile("bar.sync 1, %0;" ::"n"(kChains * 128) : "memory");
  if (chain > 0) return;
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) {
    for (int c = 0; c < kChains - 1; ++c) sum[i] += sums[(c * kColumns / 2 + i) * 128 + thread];
  }
  finish_any<kColumns, L::kChunk>(sum, shape, row + warp * 16, rows, column, stages.staging + warp * 16 * L::kChunkRow);
#endif
}

template <int kColumns, int kStages>
void launch_chains(const Product& job, Stream stream) {
  using L = ChainLayout<kColumns, kStages>;
  launch<float, L>(chained_product<kColumns, kStages>, job, kColumns, tiles_of(job, L::kRows, kColumns), stream);
}

constexpr ShapeCost kCosts[] = {{0.57, 3.0, 0.75, 1}, {0.28, 1.8, 0.75, 1}, {0.21, 1.2, 0.5, 2}, {0.15, 1.2, 0.33, 2},
                                {0.13, 0.9, 0.24, 2}, {0.28, 1.8, 0.75, 2}, {0.05, 1.5, 0.24, 1}};

}  // namespace

bool tensor_cores_fit(const Product& job, const Chip& chip) noexcept {
  return job.number == Number::bf16 && chip.hopper() && job.inputs % 8 == 0 && job.outputs % 8 == 0;
}

bool shape_fits(const Product& job, int shape) noexcept {
  const bool whole = job.column_scale != nullptr, many = !whole && job.inputs >= kManyInputs;
  return shape == 6 ? many : !many || (shape != 0 && shape != 5);
}

void multiply_by_tensor_cores(const Product& job, const Chip& chip, int shape, Stream stream) {
  switch (shape < 0 ? best_shape<float>(job, chip, kCosts) : shape) {
    case 0:
      return launch_tiles<float, 2, 256, 4, 1>(job, chip, stream);
    case 1:
      return launch_tiles<float, 2, 128, 5, 1>(job, chip, stream);
    case 2:
      return launch_tiles<float, 2, 64, 4, 2>(job, chip, stream);
    case 3:
      return launch_tiles<float, 1, 64, 6, 2>(job, chip, stream);
    case 4:
      return launch_tiles<float, 1, 32, 8, 2>(job, chip, stream);
    case 5:
      return launch_tiles<float, 2, 128, 3, 2>(job, chip, stream);
    default:
      return launch_chains<32, 12>(job, stream);
  }
}

}  // namespace exeunt::cuda
