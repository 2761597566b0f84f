// SPDX-License-Identifier: Apache-2.0
// Products in tiles: up to 32 rows and 32 outputs at once, each as two tiles. While the tiles of one block are summed
// up, the vector units finish the block before it, so an activation costs next to nothing.
#pragma once

#include "exeunt/runtime/cpu/product.h"
#include "exeunt/runtime/cpu/x86/tiles.h"

namespace exeunt::kernel {
namespace {

template <class V, class WeightType>
struct AmxBlock {
  using Weight = WeightType;
  static constexpr int kRows = 32, kColumns = 32, kOffset = 0;
  static constexpr int kGroup = 4 / sizeof(Weight), kStep = 16 * kGroup;  // inputs of one tile
  static constexpr size_t kTileBytes = 1024;

  // [step] [left and right tile] [16 groups] [16 outputs] [inputs of a group]
  static constexpr size_t place(int k, int c) {
    const int tile = k / kStep * 2 + c / 16, group = k % kStep / kGroup;
    return static_cast<size_t>(tile) * 256 * kGroup + static_cast<size_t>((group * 16 + c % 16) * kGroup + k % kGroup);
  }
  static constexpr int stored_inputs(int inputs) { return (inputs + kStep - 1) / kStep * kStep; }

  using P = Panels<AmxBlock>;

  // A block that is summed up but not yet finished.
  struct Pending {
    void finish_with(FinishTile finish, const Product& product) {
      if (tile.rows > 0) finish(tile, product);
      tile.rows = 0;
    }
    Tile tile = {};
  };

  template <bool two_row_tiles>
  static void step(const std::byte* upper, const std::byte* lower, size_t stride, const std::byte* weights) {
    load_passing_tile<4>(upper, stride);
    load_tile<6>(weights, 64);
    join_tiles<Weight, 0, 4, 6>();
    load_tile<7>(weights + kTileBytes, 64);
    join_tiles<Weight, 1, 4, 7>();
    if constexpr (two_row_tiles) {
      load_passing_tile<5>(lower, stride);
      join_tiles<Weight, 2, 5, 6>();
      join_tiles<Weight, 3, 5, 7>();
    }
  }

  // A product whose tile shapes are set, with what its loops share.
  template <bool two_row_tiles>
  struct Run {
    static constexpr size_t kSumsStride = sizeof(float) * kColumns;
    // Inputs are taken in slices whose weights fill half of the first-level cache; between slices the sums of a few
    // blocks rest in memory, unrounded, so the order of additions stays the same.
    static constexpr int kSliceSteps = 12, kRestingBlocks = 4;

    Run(const Product& work, int rows, int upper)
        : product(work),
          finish(finish_of<V, P::kIntegers, kColumns / V::kWidth>(work)),
          stride(Rows<V>::row_bytes(work.input.precision, work.input.columns)),
          panel_bytes(P::panel_bytes(work.weight->inputs)),
          block_rows(rows),
          upper_rows(upper) {}

    void load_sums(const float* from) const {
      load_tile<0>(from, kSumsStride);
      load_tile<1>(from + 16, kSumsStride);
      if constexpr (two_row_tiles) {
        load_tile<2>(from + upper_rows * kColumns, kSumsStride);
        load_tile<3>(from + upper_rows * kColumns + 16, kSumsStride);
      }
    }
    void store_sums(float* to) const {
      store_tile<0>(to, kSumsStride);
      store_tile<1>(to + 16, kSumsStride);
      if constexpr (two_row_tiles) {
        store_tile<2>(to + upper_rows * kColumns, kSumsStride);
        store_tile<3>(to + upper_rows * kColumns + 16, kSumsStride);
      }
    }
    static void clear_sums() {
      zero_tile<0>();
      zero_tile<1>();
      if constexpr (two_row_tiles) {
        zero_tile<2>();
        zero_tile<3>();
      }
    }

    // Steps [from, to) of the block that starts at row `first`; meanwhile the block before this one is finished.
    void sum(int first, int from, int to, const std::byte* panel) {
      const std::byte *upper = Rows<V>::row(product.input, first) + from * 64, *lower = upper + stride * upper_rows,
                      *w = panel + P::kHeader + static_cast<size_t>(from) * 2 * kTileBytes;
      for (int i = from; i < to; ++i, upper += 64, lower += 64, w += 2 * kTileBytes) {
        step<two_row_tiles>(upper, lower, stride, w);
        // By now the tiles have work for a while, and the sums of the block before have reached memory.
        if (i == from + 2) pending.finish_with(finish, product);
      }
      pending.finish_with(finish, product);
    }

    void run() {
      const PackedWeight& weight = *product.weight;
      const int steps = stored_inputs(weight.inputs) / kStep, slices = (steps + kSliceSteps - 1) / kSliceSteps;
      const int slice_steps = (steps + slices - 1) / slices, end = product.row + product.rows;
      const int blocks = (product.rows + block_rows - 1) / block_rows;
      alignas(64) float sums[kRestingBlocks][kRows * kColumns];
      for (int p = product.panel; p < product.panel + product.panels; ++p) {
        auto* panel = const_cast<std::byte*>(weight.data) + static_cast<size_t>(p) * panel_bytes;
        for (int group = 0; group < blocks; group += kRestingBlocks) {
          for (int from = 0; from < steps; from += slice_steps) {
            const int to = from + slice_steps < steps ? from + slice_steps : steps;
            for (int b = group; b < blocks && b < group + kRestingBlocks; ++b) {
              // The last block starts early enough to be whole; only its new rows are finished.
              const int row = product.row + b * block_rows, first = row + block_rows <= end ? row : end - block_rows;
              float* resting = sums[b - group];
              from == 0 ? clear_sums() : load_sums(resting);
              sum(first, from, to, panel);
              store_sums(resting);
              if (to == steps) set_pending(p, panel, row, first, resting);
            }
          }
        }
      }
      pending.finish_with(finish, product);
    }

    void set_pending(int p, std::byte* panel, int row, int first, const float* sums) {
      const int columns = product.weight->outputs - p * kColumns;
      pending.tile = {.sums = sums + (row - first) * kColumns,
                      .stride = kColumns,
                      .row = row,
                      .rows = first + block_rows - row,
                      .column = p * kColumns,
                      .columns = columns < kColumns ? columns : kColumns,
                      .bias = P::bias(panel),
                      .scale = P::kIntegers ? P::scale(panel) : nullptr};
    }

    const Product& product;
    FinishTile finish;
    size_t stride, panel_bytes;
    int block_rows, upper_rows;
    Pending pending = {};
  };

  static void multiply(const Product& product) {
    // So many rows at a time that they stay in the second-level cache while all panels pass.
    constexpr size_t cache = size_t{1} << 20;
    const int most =
        static_cast<int>(cache / Rows<V>::row_bytes(product.input.precision, product.input.columns) / kRows);
    const int rows_at_once = (most < 4 ? 4 : most) * kRows;
    Product part = product;
    for (int row = 0; row < product.rows; row += rows_at_once) {
      part.row = product.row + row;
      part.rows = product.rows - row < rows_at_once ? product.rows - row : rows_at_once;
      // Blocks of equal height: a tile takes the time of its rows, and its shape is set once for all.
      const int blocks = (part.rows + kRows - 1) / kRows, block_rows = (part.rows + blocks - 1) / blocks;
      const int upper = block_rows <= 16 ? block_rows : (block_rows + 1) / 2;
      TileShapes(upper, block_rows - upper).load();
      upper == block_rows ? Run<false>(part, block_rows, upper).run() : Run<true>(part, block_rows, upper).run();
    }
    release_tiles();
  }
};

// Small products for attention, in whole tiles: what rows behind the last one hold is never read.
struct TilePairProducts {
  static constexpr int kRows = 32;
  static void begin() { TileShapes(16, 16).load(); }
  static void end() { release_tiles(); }

  template <bool two_row_tiles, bool two_column_tiles>
  static void run_columns(const PairProduct& p, int column) {
    zero_tile<0>();
    if constexpr (two_column_tiles) zero_tile<1>();
    if constexpr (two_row_tiles) zero_tile<2>();
    if constexpr (two_row_tiles && two_column_tiles) zero_tile<3>();
    const uint32_t* b = p.b + column;
    const size_t a_stride = p.a_stride * sizeof(uint16_t), b_stride = p.b_stride * sizeof(uint32_t);
    for (int pair = 0; pair < p.pairs; pair += 16, b += 16 * p.b_stride) {
      load_tile<4>(p.a + 2 * pair, a_stride);
      load_tile<6>(b, b_stride);
      join_tiles<uint16_t, 0, 4, 6>();
      if constexpr (two_column_tiles) {
        load_tile<7>(b + 16, b_stride);
        join_tiles<uint16_t, 1, 4, 7>();
      }
      if constexpr (two_row_tiles) {
        load_tile<5>(p.a + 16 * p.a_stride + 2 * pair, a_stride);
        join_tiles<uint16_t, 2, 5, 6>();
        if constexpr (two_column_tiles) join_tiles<uint16_t, 3, 5, 7>();
      }
    }
    float* to = p.sums + column;
    const size_t stride = p.sums_stride * sizeof(float);
    store_tile<0>(to, stride);
    if constexpr (two_column_tiles) store_tile<1>(to + 16, stride);
    if constexpr (two_row_tiles) store_tile<2>(to + 16 * p.sums_stride, stride);
    if constexpr (two_row_tiles && two_column_tiles) store_tile<3>(to + 16 * p.sums_stride + 16, stride);
  }

  template <bool two_row_tiles>
  static void run_rows(const PairProduct& p) {
    int column = 0;
    for (; column + 32 <= p.columns; column += 32) run_columns<two_row_tiles, true>(p, column);
    if (column < p.columns) run_columns<two_row_tiles, false>(p, column);
  }

  static void run(const PairProduct& p) { p.rows > 16 ? run_rows<true>(p) : run_rows<false>(p); }
};

}  // namespace
}  // namespace exeunt::kernel
