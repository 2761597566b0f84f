// SPDX-License-Identifier: Apache-2.0
// Matrix products by Hopper's tensor cores: sums of products of bf16 in fp32, or of int8 in int32; scales, bias and the
// activation function before the one store. gemm_wgmma.cu and gemm_int8.cu make kernels of it.
//
// Blocks stay and take tile after tile (how many there are is known only on the device). In a block one warp copies
// slices of 128 bytes of inputs to shared memory, some ahead; a warpgroup for every 64 rows multiplies them.
//
// An output is one chain of sums over the inputs, 32 bytes of them at a time, in every tile shape: the shape changes no
// bit. Many inputs are four chains, again in every shape, so that four blocks can share them where rows are few.
#pragma once

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "exeunt/engine/cuda/gemm_stages.cuh"
#include "exeunt/engine/cuda/start.cuh"

namespace exeunt::cuda {
namespace {

// Where the tiles of a block begin and how far apart they are.
template <class Sum, class L, int kColumns>
struct Tiles {
  int across, count, slices, first, step;

  __device__ explicit Tiles(const Shape& shape)
      : across((shape.outputs + kColumns - 1) / kColumns),
        count(0),
        slices((shape.inputs + kSliceInputs<Sum> - 1) / kSliceInputs<Sum>),
        first(static_cast<int>(blockIdx.x)),
        step(static_cast<int>(gridDim.x)) {}
  // How many rows there are is known when the kernel before this one has ended.
  __device__ void learn(int rows) { count = (rows + L::kRows - 1) / L::kRows * across; }
  __device__ int row(int tile) const { return tile / across * L::kRows; }
  __device__ int column(int tile) const { return tile % across * kColumns; }
};

// Where chain `chain` of kChains begins. Many inputs are summed in four chains of slices, which are then added in
// order.
template <int kChains>
__device__ inline int chain_begin(int slices, int chain) {
  return slices * chain / kChains;
}

template <class Sum, int kGroups, int kColumns, int kStageCount, int kTogether, int kChains>
__global__ void __launch_bounds__(Layout<kGroups, kColumns, kStageCount, kTogether>::kThreads, kTogether)
    tensor_product(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap weight, Shape shape) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<kGroups, kColumns, kStageCount, kTogether>;
  extern __shared__ uint8_t memory[];
  Stages<L> stages(memory, kGroups * 4);
  let_next_begin();
  Tiles<Sum, L, kColumns> tiles(shape);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == kGroups * 4) {  // the copying warp
    int ahead = 0;
    if (lane == 0) ahead = stages.template fetch_weights<Sum>(weight, 0, tiles.slices, tiles.column(tiles.first));
    wait_for_previous();
    if (lane != 0) return;
    tiles.learn(shape.live->rows);
    if (tiles.first >= tiles.count) return stages.drain(input, ahead);
    for (int tile = tiles.first; tile < tiles.count; tile += tiles.step) {
      stages.template copy_tile<Sum>(input, weight, 0, tiles.slices, tiles.row(tile), tiles.column(tile), ahead);
      ahead = 0;
    }
    return;
  }
  wait_for_previous();
  const int rows = shape.live->rows;
  tiles.learn(rows);
  for (int tile = tiles.first; tile < tiles.count; tile += tiles.step) {
    Sum sum[kColumns / 2];
    [[maybe_unused]] Sum total[kChains > 1 ? kColumns / 2 : 1];
    for (int chain = 0; chain < kChains; ++chain) {
      const int begin = chain_begin<kChains>(tiles.slices, chain), end = chain_begin<kChains>(tiles.slices, chain + 1);
      int before = -1;
      for (int slice = begin; slice < end; ++slice) {
        stages.template multiply<kColumns>(sum, warp / 4 * 64, slice > begin);
        wgmma_wait<1>();
        if (before >= 0 && lane == 0) barrier_arrive(stages.empty + before);
        before = stages.at;
        stages.advance();
      }
      wgmma_wait<0>();
      if (lane == 0) barrier_arrive(stages.empty + before);
      if constexpr (kChains > 1) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) total[i] = chain == 0 ? sum[i] : total[i] + sum[i];
      }
    }
    uint8_t* staging = stages.staging + warp * 16 * L::kChunkRow;
    if constexpr (kChains > 1) {
      finish_any<kColumns, L::kChunk>(total, shape, tiles.row(tile) + warp * 16, rows, tiles.column(tile), staging);
    } else {
      finish_any<kColumns, L::kChunk>(sum, shape, tiles.row(tile) + warp * 16, rows, tiles.column(tile), staging);
    }
  }
#endif
}

// Two warpgroups take turns: one multiplies a whole tile of 128 rows while the other finishes the tile before it, so
// that the activation function costs less time of the tensor cores. A warpgroup may begin its tile when the other has
// seen the last slice of the tile before: barriers know no more than the parity of a round, so that nobody may wait for
// a round but the next.
template <int kColumns, int kStageCount>
struct AlternatingLayout : Layout<2, kColumns, kStageCount, 1> {
  static constexpr int kThreads = 384;  // the copying warp has a warpgroup to itself, whose registers the others take
};
template <class Sum, int kColumns, int kStageCount>
__global__ void __launch_bounds__(AlternatingLayout<kColumns, kStageCount>::kThreads, 1)
    alternating_product(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap weight,
                        Shape shape) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = AlternatingLayout<kColumns, kStageCount>;
  extern __shared__ uint8_t memory[];
  Stages<L> stages(memory, 4);
  let_next_begin();
  Tiles<Sum, L, kColumns> tiles(shape);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  wait_for_previous();
  const int rows = shape.live->rows;
  tiles.learn(rows);
  const auto release = [&](int stage) {
    if (lane == 0) barrier_arrive(stages.empty + stage);
  };
  if (warp >= 8) {  // the copying warp
    give_registers<40>();
    for (int tile = tiles.first; warp == 8 && lane == 0 && tile < tiles.count; tile += tiles.step)
      stages.template copy_tile<Sum>(input, weight, 0, tiles.slices, tiles.row(tile), tiles.column(tile), 0);
    return;
  }
  take_registers<232>();
  const int group = warp / 4;
  stages.skip(group * tiles.slices);
  unsigned turns = 0;
  for (int tile = tiles.first + group * tiles.step; tile < tiles.count; tile += 2 * tiles.step) {
    // The very first tile is the first warpgroup's without asking.
    if (tile != tiles.first) barrier_wait(stages.turn + group, turns++ & 1U);
    Sum upper[kColumns / 2], lower[kColumns / 2];
    int before = -1;
    for (int slice = 0; slice < tiles.slices; ++slice) {
      stages.template multiply_two<kColumns>(upper, lower, slice > 0);
      if (slice + 1 == tiles.slices && lane == 0) barrier_arrive(stages.turn + 1 - group);
      wgmma_wait<1>();
      if (before >= 0) release(before);
      before = stages.at;
      stages.advance();
    }
    wgmma_wait<0>();
    release(before);
    stages.skip(tiles.slices);  // of the other warpgroup
    uint8_t* staging = stages.staging + warp * 16 * L::kChunkRow;
    const int row = tiles.row(tile) + warp % 4 * 16, column = tiles.column(tile);
    finish_any<kColumns, L::kChunk>(upper, shape, row, rows, column, staging);
    finish_any<kColumns, L::kChunk>(lower, shape, row + 64, rows, column, staging);
  }
#endif
}

// A cluster of four blocks has one tile of 64 rows, each block one of the four chains; then each finishes 16 rows. So
// few rows of many inputs keep four times as many processors busy.
template <class Sum, int kColumns, int kStageCount>
__global__ void __launch_bounds__(Layout<1, kColumns, kStageCount, 2>::kThreads, 2)
    split_product(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap weight, Shape shape) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<1, kColumns, kStageCount, 2>;
  static_assert(kColumns == 32, "each of the four warps finishes eight columns");
  static_assert(4 * 32 * kColumns / 2 * sizeof(Sum) <= L::kStages * L::kStage);
  extern __shared__ uint8_t memory[];
  Stages<L> stages(memory, 4);
  let_next_begin();
  Tiles<Sum, L, kColumns> tiles(shape);
  const int tile = static_cast<int>(blockIdx.x) / kSplit, rank = static_cast<int>(blockIdx.x) % kSplit;
  const int begin = chain_begin<kSplit>(tiles.slices, rank), end = chain_begin<kSplit>(tiles.slices, rank + 1);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int ahead = 0;
  if (threadIdx.x == 128) ahead = stages.template fetch_weights<Sum>(weight, begin, end - begin, tiles.column(tile));
  wait_for_previous();
  const int rows = shape.live->rows;
  tiles.learn(rows);
  if (tile >= tiles.count) {  // so it is for the whole cluster
    if (threadIdx.x == 128) stages.drain(input, ahead);
    return;
  }
  Sum* sums = reinterpret_cast<Sum*>(stages.stages);  // [warp][value][lane], over the stages when they are done
  if (warp == 4) {
    if (lane == 0)
      stages.template copy_tile<Sum>(input, weight, begin, end, tiles.row(tile), tiles.column(tile), ahead);
  } else {
    Sum sum[kColumns / 2];
    int before = -1;
    for (int slice = begin; slice < end; ++slice) {
      stages.template multiply<kColumns>(sum, 0, slice > begin);
      wgmma_wait<1>();
      if (before >= 0 && lane == 0) barrier_arrive(stages.empty + before);
      before = stages.at;
      stages.advance();
    }
    wgmma_wait<0>();
    asm volatile("bar.sync 1, 128;" ::: "memory");  // nobody reads the stages any more
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[(warp * kColumns / 2 + i) * 32 + lane] = sum[i];
  }
  cluster_sync();
  if (warp < 4) {
    Sum mine[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Sum* at = sums + (rank * kColumns / 2 + warp * 4 + i) * 32 + lane;
      Sum total = load_from(0, at);
      for (unsigned block = 1; block < kSplit; ++block) total += load_from(block, at);
      mine[i] = total;
    }
    finish_eight(mine, shape, tiles.row(tile) + rank * 16, rows, tiles.column(tile) + warp * 8);
  }
  cluster_sync();  // the others may still read here
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
void launch(Kernel kernel, const Product& job, int columns, int blocks, Stream stream, unsigned cluster = 1) {
  allow_shared("preparing a matrix product", kernel, L::kShared);
  const Shape shape{job.bias,      static_cast<bf16*>(job.out),
                    job.inputs,    job.outputs,
                    job.finish,    job.live,
                    job.row_scale, job.column_scale,
                    job.wide};
  start("starting a matrix product", kernel,
        {.blocks = dim3(static_cast<unsigned>(blocks)),
         .threads = L::kThreads,
         .shared = L::kShared,
         .stream = stream,
         .cluster = cluster,
         .early = few_rows(job.max_rows)},
        map_of<Sum>(job.input, job.max_rows, job.inputs, L::kRows),
        map_of<Sum>(job.weight, job.outputs, job.inputs, columns), shape);
}

inline int tiles_of(const Product& job, int rows, int columns) {
  return (job.max_rows + rows - 1) / rows * ((job.outputs + columns - 1) / columns);
}

template <class Sum, int kGroups, int kColumns, int kStages, int kTogether>
void launch_tiles(const Product& job, const Chip& chip, Stream stream) {
  using L = Layout<kGroups, kColumns, kStages, kTogether>;
  const int blocks = std::min(tiles_of(job, L::kRows, kColumns), kTogether * chip.processors);
  if constexpr (std::is_same_v<Sum, float> && L::kFourChains) {
    if (chains_of(job) > 1)
      return launch<Sum, L>(tensor_product<Sum, kGroups, kColumns, kStages, kTogether, kSplit>, job, kColumns, blocks,
                            stream);
  }
  launch<Sum, L>(tensor_product<Sum, kGroups, kColumns, kStages, kTogether, 1>, job, kColumns, blocks, stream);
}

template <class Sum, int kColumns, int kStages>
void launch_alternating(const Product& job, const Chip& chip, Stream stream) {
  using L = AlternatingLayout<kColumns, kStages>;
  const int blocks = std::min(tiles_of(job, L::kRows, kColumns), chip.processors);
  launch<Sum, L>(alternating_product<Sum, kColumns, kStages>, job, kColumns, blocks, stream);
}

template <class Sum, int kColumns, int kStages>
void launch_split(const Product& job, Stream stream) {
  using L = Layout<1, kColumns, kStages, 2>;
  launch<Sum, L>(split_product<Sum, kColumns, kStages>, job, kColumns, kSplit * tiles_of(job, L::kRows, kColumns),
                 stream, kSplit);
}

// What a tile of each of kShapes takes, as measured on an H200: microseconds for a slice of inputs and at its end where
// few tiles run, and the share of the tensor cores' peak that many tiles reach, without and with an activation.
// `together` of them share a processor.
struct ShapeCost {
  double slice, end, share, share_activated;
  int together;
};
constexpr ShapeCost kCosts[] = {{0.57, 3.0, 0.623, 0.313, 1}, {0.28, 1.8, 0.595, 0.435, 1},
                                {0.21, 1.6, 0.395, 0.338, 2}, {0.15, 1.0, 0.326, 0.303, 2},
                                {0.13, 0.7, 0.242, 0.218, 2}, {0.28, 3.1, 0.535, 0.393, 2},
                                {0.30, 0.4, 0.640, 0.455, 1},  // the end of a tile is beside the next
                                {0.035, 1.5, 0.2, 0.2, 2}};
static_assert(std::size(kCosts) == std::size(kShapes));

// The fastest shape for as many rows as there may be.
template <class Sum>
int best_shape(const Product& job, const Chip& chip) {
  const double peak = std::is_same_v<Sum, float> ? 7.5e6 : 15e6;  // operations of one processor in a microsecond
  int best = -1;
  double least = 0;
  for (int s = 0; s < static_cast<int>(std::size(kCosts)); ++s) {
    if (!shape_fits(job, s)) continue;
    const ShapeCost& cost = kCosts[s];
    const TileShape& shape = kShapes[s];
    const int parts = s == kSplitShape ? kSplit : 1, tiles = tiles_of(job, shape.rows, shape.columns) * parts;
    if (s == kAlternatingShape && tiles < 2 * chip.processors) continue;  // nobody to take turns with
    const auto waves = [tiles](int at_once) { return static_cast<double>((tiles + at_once - 1) / at_once); };
    const double operations = 2.0 * shape.rows * shape.columns * job.inputs / parts;
    const double share = job.finish == Finish::none ? cost.share : cost.share_activated;
    const double alone = cost.slice * job.inputs / kSliceInputs<Sum> + cost.end;
    const double time =
        std::max(waves(chip.processors * cost.together) * alone, waves(chip.processors) * operations / (peak * share));
    if (best >= 0 && time >= least) continue;
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
    case 5:
      return launch_tiles<Sum, 2, 128, 3, 2>(job, chip, stream);
    case kAlternatingShape:
      return launch_alternating<Sum, 128, 6>(job, chip, stream);
    default:
      return launch_split<Sum, 32, 8>(job, stream);
  }
}

}  // namespace
}  // namespace exeunt::cuda
