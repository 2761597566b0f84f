// SPDX-License-Identifier: Apache-2.0
// Parts of the products in gemm_tiles.cuh: the stages that slices of inputs pass through in shared memory, and what
// happens to sums before they are stored.
#pragma once

#include <type_traits>

#include "exeunt/engine/cuda/numbers.cuh"
#include "exeunt/engine/cuda/wgmma.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kSplit = 4;         // chains of many inputs
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
  // Whether registers have room for the sums of the chains before, too.
  static constexpr bool kFourChains = kColumns <= 64 || (kColumns == 128 && kTogether == 1);
  static constexpr size_t kShared = 1024 + static_cast<size_t>(kStages) * kStage + kStaging + (2 * kStages + 2) * 8;
};
struct Shape {
  const float* bias;
  bf16* out;
  int inputs, outputs;
  Finish finish;
  const Live* live;
  const float *row_scale, *column_scale;  // int8: what a sum of products stands for
  float* wide;                            // instead of `out`
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
    // All of a chunk's before the first is used, and without a branch: beyond the edge those of the last columns will
    // do, since nothing is stored there.
    float2 biases[kChunk / 8], scales[kChunk / 8];
#pragma unroll
    for (int j = 0; j < kChunk / 8; ++j) {
      const int column = min(first_column + chunk * kChunk + j * 8 + 2 * q, shape.outputs - 2);
      biases[j] = *reinterpret_cast<const float2*>(shape.bias + column);
      scales[j] = make_float2(1, 1);
      if constexpr (kScaled) scales[j] = *reinterpret_cast<const float2*>(shape.column_scale + column);
    }
#pragma unroll
    for (int j = 0; j < kChunk / 8; ++j) {
      const int at = (chunk * kChunk / 8 + j) * 4;
      const float2 bias = biases[j], scale = scales[j];
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

// Eight columns of a warp's 16 rows, stored without staging.
template <class Sum>
__device__ void finish_eight(const Sum (&sum)[4], const Shape& shape, int first_row, int rows, int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = first_column + 2 * (lane % 4);
  if (column >= shape.outputs) return;
  const float2 bias = *reinterpret_cast<const float2*>(shape.bias + column);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + 8 * half;
    if (row >= rows) continue;
    float low = static_cast<float>(sum[2 * half]), high = static_cast<float>(sum[2 * half + 1]);
    if constexpr (!std::is_same_v<Sum, float>) {
      const float scale = shape.row_scale[row];
      low = fmaf(low, scale * shape.column_scale[column], bias.x);
      high = fmaf(high, scale * shape.column_scale[column + 1], bias.y);
    } else {
      low += bias.x;
      high += bias.y;
    }
    low = finished(low, shape.finish, true);
    high = finished(high, shape.finish, true);
    *reinterpret_cast<uint32_t*>(shape.out + static_cast<size_t>(row) * static_cast<size_t>(shape.outputs) + column) =
        packed(low, high);
  }
}

// The stages that slices pass through.
template <class L>
struct Stages {
  uint8_t *stages, *staging;
  uint64_t *full, *empty, *turn;  // turn[2]: of two warpgroups that alternate
  int at = 0;
  unsigned round = 0;  // how often all stages were used, as a parity

  // `users`: warps that read a stage.
  __device__ Stages(uint8_t* memory, unsigned users)
      : stages(memory + (1024 - shared_address(memory) % 1024) % 1024),  // a swizzled kilobyte starts at a multiple
        staging(stages + L::kStages * L::kStage),
        full(reinterpret_cast<uint64_t*>(staging + L::kStaging)),
        empty(full + L::kStages),
        turn(empty + L::kStages) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < L::kStages; ++s) {
        barrier_init(full + s, 1);
        barrier_init(empty + s, users);
      }
      barrier_init(turn, 4);
      barrier_init(turn + 1, 4);
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
  // Past any number of slices.
  __device__ void skip(int steps) {
    at += steps;
    round ^= static_cast<unsigned>(at / L::kStages) & 1U;
    at %= L::kStages;
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
  // The weights of the first slices, which the kernel before this one did not write: they may come while it ends.
  // Returns how many.
  template <class Sum>
  __device__ int fetch_weights(const CUtensorMap& weight, int first, int slices, int column) {
    const int ahead = min(slices, L::kStages);
    for (int s = 0; s < ahead; ++s) {
      barrier_expect(full + s, L::kStage);
      copy_box(stages + s * L::kStage + L::kInputBytes, &weight, (first + s) * kSliceInputs<Sum>, column, full + s);
    }
    return ahead;
  }
  // A block that has no tile may not end before what it fetched has come.
  __device__ void drain(const CUtensorMap& input, int ahead) {
    for (int s = 0; s < ahead; ++s) copy_box(stages + s * L::kStage, &input, 0, 0, full + s);
    for (int s = 0; s < ahead; ++s) barrier_wait(full + s, 0);
  }
  // All slices of a tile; the weights of the first `ahead` are under way.
  template <class Sum>
  __device__ void copy_tile(const CUtensorMap& input, const CUtensorMap& weight, int first, int end, int row,
                            int column, int ahead) {
    for (int slice = first; slice < end; ++slice) {
      if (slice - first >= ahead) {
        copy(input, weight, slice * kSliceInputs<Sum>, row, column);
      } else {
        copy_box(stages + at * L::kStage, &input, slice * kSliceInputs<Sum>, row, full + at);
        advance();
      }
    }
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
  // The same for all 128 rows of a stage.
  template <int kColumns, class Sum>
  __device__ void multiply_two(Sum (&upper)[kColumns / 2], Sum (&lower)[kColumns / 2], bool add) {
    barrier_wait(full + at, round);
    const uint8_t* from = stages + at * L::kStage;
    const uint64_t a = tile_descriptor(from), c = tile_descriptor(from + 64 * kSliceBytes),
                   b = tile_descriptor(from + L::kInputBytes);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSliceBytes / 32; ++k) {
      const auto step = static_cast<uint64_t>(2 * k);
      wgmma<kColumns>(upper, a + step, b + step, add || k > 0 ? 1 : 0);
      wgmma<kColumns>(lower, c + step, b + step, add || k > 0 ? 1 : 0);
    }
    wgmma_commit();
  }
};

// Outputs as floats, of few rows: stored as they lie.
template <int kColumns>
__device__ void finish_wide(const float (&sum)[kColumns / 2], const Shape& shape, int first_row, int rows,
                            int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const int column = first_column + j * 8 + 2 * (lane % 4);
    if (column >= shape.outputs) continue;
    const float2 bias = *reinterpret_cast<const float2*>(shape.bias + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane / 4 + 8 * half;
      if (row >= rows) continue;
      *reinterpret_cast<float2*>(shape.wide + static_cast<size_t>(row) * static_cast<size_t>(shape.outputs) + column) =
          make_float2(finished(sum[4 * j + 2 * half] + bias.x, shape.finish, false),
                      finished(sum[4 * j + 2 * half + 1] + bias.y, shape.finish, false));
    }
  }
}

template <int kColumns, int kChunk, class Sum>
__device__ void finish_any(const Sum (&sum)[kColumns / 2], const Shape& shape, int first_row, int rows,
                           int first_column, uint8_t* staging) {
  if constexpr (std::is_same_v<Sum, float> && kColumns <= 64) {
    if (shape.wide != nullptr) return finish_wide<kColumns>(sum, shape, first_row, rows, first_column);
  }
  switch (shape.finish) {
    case Finish::none:
      return finish_tile<kColumns, kChunk, Finish::none>(sum, shape, first_row, rows, first_column, staging);
    case Finish::gelu:
      return finish_tile<kColumns, kChunk, Finish::gelu>(sum, shape, first_row, rows, first_column, staging);
    case Finish::gelu_new:
      return finish_tile<kColumns, kChunk, Finish::gelu_new>(sum, shape, first_row, rows, first_column, staging);
    case Finish::relu:
      return finish_tile<kColumns, kChunk, Finish::relu>(sum, shape, first_row, rows, first_column, staging);
    default:  // outputs as floats alone
      return;
  }
}

}  // namespace
}  // namespace exeunt::cuda
