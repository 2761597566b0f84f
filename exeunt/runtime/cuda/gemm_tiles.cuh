// SPDX-License-Identifier: Apache-2.0
// Matrix products by Hopper's tensor cores: sums of products of bf16 in fp32, or of int8 in int32; scales, bias and the
// activation function before the one store. gemm_wgmma.cu and gemm_int8.cu make kernels of it.
//
// Blocks stay and take tile after tile (how many there are is known only on the device). In a block one warp copies
// slices of 128 bytes of inputs to shared memory, some ahead; a warpgroup for every 64 rows multiplies them.
//
// An output is one chain of sums over the inputs, 32 bytes of them at a time, in every tile shape: the shape changes no
// bit.
#pragma once

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "exeunt/runtime/cuda/failure.h"
#include "exeunt/runtime/cuda/numbers.cuh"
#include "exeunt/runtime/cuda/wgmma.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kSliceBytes = 128;  // of a row: one swizzled row in shared memory
// Inputs of a slice: bf16 is summed in float, int8 in int.
template <class Sum>
inline constexpr int kSliceInputs = std::is_same_v<Sum, float> ? kSliceBytes / 2 : kSliceBytes;

// kTogether: blocks that share a processor; then one multiplies while the other finishes its outputs.
template <int kGroups, int kColumns, int kStageCount, int kTogether>
struct Layout {
  static constexpr int kChunk = kTogether > 1 || kColumns < 64 ? 32 : 64;  // output columns that a warp stages at once
  static constexpr int kChunkRow = kChunk * 2 + 16;                        // bytes, padded against bank conflicts
  static constexpr int kRows = 64 * kGroups, kStages = kStageCount;
  static constexpr int kInputBytes = kRows * kSliceBytes, kWeightBytes = kColumns * kSliceBytes;
  static constexpr int kStage = kInputBytes + kWeightBytes;
  static constexpr int kStaging = kGroups * 4 * 16 * kChunkRow;
  static constexpr int kThreads = kGroups * 128 + 32;
  static constexpr size_t kShared = 1024 + static_cast<size_t>(kStages) * kStage + kStaging + 2 * kStages * 8;
};
struct Shape {
  const float* bias;
  bf16* out;
  int inputs, outputs;
  Finish finish;
  const Live* live;
  const float *row_scale, *column_scale;  // int8: what a sum of products stands for
};

// What a warp does with its 16 rows of a tile. A thread holds columns 2q, 2q + 1 of every eight, of rows r and r + 8;
// they go through shared memory (`staging`), so that the warp stores whole lines.
template <int kColumns, int kChunk, Finish kFinish, class Sum>
__device__ void finish_tile(const Sum (&sum)[kColumns / 2], const Shape& shape, int first_row, int rows,
                            int first_column, uint8_t* staging) {
  constexpr int kChunkRow = kChunk * 2 + 16;
  constexpr bool kScaled = !std::is_same_v<Sum, float>;
  const int lane = static_cast<int>(threadIdx.x) % 32, r = lane / 4, q = lane % 4;
  float scale0 = 1, scale1 = 1;
  if constexpr (kScaled) {
    if (first_row + r < rows) scale0 = shape.row_scale[first_row + r];
    if (first_row + r + 8 < rows) scale1 = shape.row_scale[first_row + r + 8];
  }
#pragma unroll
  for (int chunk = 0; chunk < kColumns / kChunk; ++chunk) {
#pragma unroll
    for (int j = 0; j < kChunk / 8; ++j) {
      const int at = (chunk * kChunk / 8 + j) * 4;
      const int column = first_column + chunk * kChunk + j * 8 + 2 * q;
      float2 bias = make_float2(0, 0), scale = make_float2(1, 1);
      if (column < shape.outputs) {
        bias = *reinterpret_cast<const float2*>(shape.bias + column);
        if constexpr (kScaled) scale = *reinterpret_cast<const float2*>(shape.column_scale + column);
      }
      const auto value = [&](Sum x, float row, float of_column, float add) {
        if constexpr (kScaled) return finished(fmaf(static_cast<float>(x), row * of_column, add), kFinish, true);
        return finished(static_cast<float>(x) + add, kFinish, true);
      };
      *reinterpret_cast<uint32_t*>(staging + r * kChunkRow + j * 16 + q * 4) =
          packed(value(sum[at], scale0, scale.x, bias.x), value(sum[at + 1], scale0, scale.y, bias.y));
      *reinterpret_cast<uint32_t*>(staging + (r + 8) * kChunkRow + j * 16 + q * 4) =
          packed(value(sum[at + 2], scale1, scale.x, bias.x), value(sum[at + 3], scale1, scale.y, bias.y));
    }
    __syncwarp();
    constexpr int kPerRow = kChunk / 8;  // lanes that store one row, 16 bytes each
#pragma unroll
    for (int i = 0; i < 16 * kPerRow / 32; ++i) {
      const int line = i * (32 / kPerRow) + lane / kPerRow, part = lane % kPerRow;
      const int row = first_row + line, column = first_column + chunk * kChunk + part * 8;
      if (row < rows && column < shape.outputs) {
        *reinterpret_cast<uint4*>(shape.out + static_cast<size_t>(row) * static_cast<size_t>(shape.outputs) + column) =
            *reinterpret_cast<const uint4*>(staging + line * kChunkRow + part * 16);
      }
    }
    __syncwarp();
  }
}

// The stages that slices pass through.
template <class L>
struct Stages {
  uint8_t *stages, *staging;
  uint64_t *full, *empty;
  int at = 0;
  unsigned round = 0;  // how often all stages were used, as a parity

  // `users`: warps that read a stage.
  __device__ Stages(uint8_t* memory, unsigned users)
      : stages(memory + (1024 - shared_address(memory) % 1024) % 1024),  // a swizzled kilobyte starts at a multiple
        staging(stages + L::kStages * L::kStage),
        full(reinterpret_cast<uint64_t*>(staging + L::kStaging)),
        empty(full + L::kStages) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < L::kStages; ++s) {
        barrier_init(full + s, 1);
        barrier_init(empty + s, users);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
  __device__ void advance(int steps = 1) {
    at += steps;
    if (at >= L::kStages) {
      at -= L::kStages;
      round ^= 1;
    }
  }
  // The slice that begins at input `slice`.
  __device__ void copy(const CUtensorMap& input, const CUtensorMap& weight, int slice, int row, int column) {
    barrier_wait(empty + at, round ^ 1);  // passes at once in the first round
    uint8_t* to = stages + at * L::kStage;
    barrier_expect(full + at, L::kStage);
    copy_box(to, &input, slice, row, full + at);
    copy_box(to + L::kInputBytes, &weight, slice, column, full + at);
    advance();
  }
  // sum = (add ? sum : 0) + the slice in this stage, for 64 rows from `first` on.
  template <int kColumns, class Sum>
  __device__ void multiply(Sum (&sum)[kColumns / 2], int first, bool add) {
    barrier_wait(full + at, round);
    const uint8_t* from = stages + at * L::kStage;
    const uint64_t a = tile_descriptor(from + first * kSliceBytes), b = tile_descriptor(from + L::kInputBytes);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSliceBytes / 32;
         ++k) {  // an instruction takes 32 bytes of inputs, and a descriptor counts in 16
      wgmma<kColumns>(sum, a + static_cast<uint64_t>(2 * k), b + static_cast<uint64_t>(2 * k), add || k > 0 ? 1 : 0);
    }
    wgmma_commit();
  }
};

template <int kColumns, int kChunk, class Sum>
__device__ void finish_any(const Sum (&sum)[kColumns / 2], const Shape& shape, int first_row, int rows,
                           int first_column, uint8_t* staging) {
  switch (shape.finish) {
    case Finish::none:
      return finish_tile<kColumns, kChunk, Finish::none>(sum, shape, first_row, rows, first_column, staging);
    case Finish::gelu:
      return finish_tile<kColumns, kChunk, Finish::gelu>(sum, shape, first_row, rows, first_column, staging);
    case Finish::gelu_new:
      return finish_tile<kColumns, kChunk, Finish::gelu_new>(sum, shape, first_row, rows, first_column, staging);
    case Finish::relu:
      return finish_tile<kColumns, kChunk, Finish::relu>(sum, shape, first_row, rows, first_column, staging);
  }
}

template <class Sum, int kGroups, int kColumns, int kStageCount, int kTogether>
__global__ void __launch_bounds__(Layout<kGroups, kColumns, kStageCount, kTogether>::kThreads, kTogether)
    tensor_product(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap weight, Shape shape) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<kGroups, kColumns, kStageCount, kTogether>;
  extern __shared__ uint8_t memory[];
  Stages<L> stages(memory, kGroups * 4);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rows = shape.live->rows;
  const int across = (shape.outputs + kColumns - 1) / kColumns;
  const int tiles = (rows + L::kRows - 1) / L::kRows * across;
  const int slices = (shape.inputs + kSliceInputs<Sum> - 1) / kSliceInputs<Sum>;
  const int first_tile = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  if (warp == kGroups * 4) {  // the copying warp
    if (lane != 0) return;
    for (int tile = first_tile; tile < tiles; tile += step) {
      for (int slice = 0; slice < slices; ++slice)
        stages.copy(input, weight, slice * kSliceInputs<Sum>, tile / across * L::kRows, tile % across * kColumns);
    }
    return;
  }
  for (int tile = first_tile; tile < tiles; tile += step) {
    Sum sum[kColumns / 2];
    int before = -1;
    for (int slice = 0; slice < slices; ++slice) {
      stages.template multiply<kColumns>(sum, warp / 4 * 64, slice > 0);
      wgmma_wait<1>();
      if (before >= 0 && lane == 0) barrier_arrive(stages.empty + before);
      before = stages.at;
      stages.advance();
    }
    wgmma_wait<0>();
    if (lane == 0) barrier_arrive(stages.empty + before);
    finish_any<kColumns, L::kChunk>(sum, shape, tile / across * L::kRows + warp * 16, rows, tile % across * kColumns,
                                    stages.staging + warp * 16 * L::kChunkRow);
  }
#endif
}

using EncodeMap = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                               const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                               CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

inline EncodeMap encode_map() {
  static const EncodeMap found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess)
      throw_cuda_failure("looking for cuTensorMapEncodeTiled", "the driver is older than CUDA 12");
    return reinterpret_cast<EncodeMap>(entry);
  }();
  return found;
}

// How the copy engine finds slices of `box` rows in [rows, columns]; beyond the edges it writes zeros.
template <class Sum>
CUtensorMap map_of(const void* data, int rows, int columns, int box) {
  constexpr bool kBf16 = std::is_same_v<Sum, float>;
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(columns) * (kBf16 ? 2 : 1)};
  const cuuint32_t boxes[2] = {kSliceInputs<Sum>, static_cast<cuuint32_t>(box)}, steps[2] = {1, 1};
  const CUresult status =
      encode_map()(&map, kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 2,
                   const_cast<void*>(data), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw_cuda_failure("describing a matrix to the copy engine", "invalid sizes");
  return map;
}

template <class Sum, class L, class Kernel>
void launch(Kernel kernel, const Product& job, int columns, int blocks, Stream stream) {
  const cudaError_t raised =  // of the GPU that this thread uses
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(L::kShared));
  if (raised != cudaSuccess) throw_cuda_failure("preparing a matrix product", cudaGetErrorString(raised));
  const Shape shape{
      job.bias,        static_cast<bf16*>(job.out), job.inputs, job.outputs, job.finish, job.live, job.row_scale,
      job.column_scale};
  kernel<<<static_cast<unsigned>(blocks), L::kThreads, L::kShared, stream>>>(
      map_of<Sum>(job.input, job.max_rows, job.inputs, L::kRows),
      map_of<Sum>(job.weight, job.outputs, job.inputs, columns), shape);
  check_launch("starting a matrix product");
}

inline int tiles_of(const Product& job, int rows, int columns) {
  return (job.max_rows + rows - 1) / rows * ((job.outputs + columns - 1) / columns);
}

template <class Sum, int kGroups, int kColumns, int kStages, int kTogether>
void launch_tiles(const Product& job, const Chip& chip, Stream stream) {
  using L = Layout<kGroups, kColumns, kStages, kTogether>;
  const int blocks = std::min(tiles_of(job, L::kRows, kColumns), kTogether * chip.processors);
  launch<Sum, L>(tensor_product<Sum, kGroups, kColumns, kStages, kTogether>, job, kColumns, blocks, stream);
}

// What a tile of each of kShapes takes, as measured on an H200: microseconds for a slice of inputs and at its end where
// few tiles run, and the share of the tensor cores' peak that many tiles reach, without and with an activation.
// `together` of them share a processor.
struct ShapeCost {
  double slice, end, share, share_activated;
  int together;
};
constexpr ShapeCost kCosts[] = {{0.57, 3.0, 0.56, 0.32, 1}, {0.28, 1.8, 0.53, 0.43, 1},  {0.21, 1.6, 0.37, 0.34, 2},
                                {0.15, 1.0, 0.31, 0.29, 2}, {0.13, 0.7, 0.235, 0.22, 2}, {0.28, 3.1, 0.50, 0.39, 2}};
static_assert(std::size(kCosts) == std::size(kShapes));

// The fastest shape for as many rows as there may be.
template <class Sum>
int best_shape(const Product& job, const Chip& chip) {
  const double peak = std::is_same_v<Sum, float> ? 7.5e6 : 15e6;  // operations of one processor in a microsecond
  int best = 0;
  double least = 0;
  for (int s = 0; s < static_cast<int>(std::size(kCosts)); ++s) {
    const ShapeCost& cost = kCosts[s];
    const TileShape& shape = kShapes[s];
    const auto waves = [tiles = tiles_of(job, shape.rows, shape.columns)](int at_once) {
      return static_cast<double>((tiles + at_once - 1) / at_once);
    };
    const double operations = 2.0 * shape.rows * shape.columns * job.inputs;
    const double share = job.finish == Finish::none ? cost.share : cost.share_activated;
    const double alone = cost.slice * job.inputs / kSliceInputs<Sum> + cost.end;
    const double time =
        std::max(waves(chip.processors * cost.together) * alone, waves(chip.processors) * operations / (peak * share));
    if (s > 0 && time >= least) continue;
    best = s;
    least = time;
  }
  return best;
}

template <class Sum>
void launch_shape(const Product& job, const Chip& chip, int shape, Stream stream) {
  switch (shape < 0 ? best_shape<Sum>(job, chip) : shape) {
    case 0:
      return launch_tiles<Sum, 2, 256, 4, 1>(job, chip, stream);
    case 1:
      return launch_tiles<Sum, 2, 128, 5, 1>(job, chip, stream);
    case 2:
      return launch_tiles<Sum, 2, 64, 4, 2>(job, chip, stream);
    case 3:
      return launch_tiles<Sum, 1, 64, 6, 2>(job, chip, stream);
    case 4:
      return launch_tiles<Sum, 1, 32, 8, 2>(job, chip, stream);
    default:
      return launch_tiles<Sum, 2, 128, 3, 2>(job, chip, stream);
  }
}

}  // namespace
}  // namespace exeunt::cuda
