// SPDX-License-Identifier: Apache-2.0
// Products in tiles: up to 32 rows and 32 outputs at once, each as two tiles. While the tiles of one block are summed
// up, the vector units finish the block before it, a few rows at each step; so what follows a product costs next to
// nothing.
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

  // Rows of a block that is summed up but not yet finished.
  struct Pending {
    Tile tile = {};
    int left = 0;

    void finish_rows(FinishTile finish, const Product& product, int rows) {
      if (left == 0) return;
      tile.rows = rows < left ? rows : left;
      finish(tile, product);
      tile.row += tile.rows;
      tile.sums = static_cast<const float*>(tile.sums) + tile.rows * tile.stride;
      left -= tile.rows;
    }
  };

  template <bool two_row_tiles>
  static void step(const std::byte* upper, const std::byte* lower, size_t stride, const std::byte* weights) {
    load_tile<4>(upper, stride);
    load_tile<6>(weights, 64);
    join_tiles<Weight, 0, 4, 6>();
    load_tile<7>(weights + kTileBytes, 64);
    join_tiles<Weight, 1, 4, 7>();
    if constexpr (two_row_tiles) {
      load_tile<5>(lower, stride);
      join_tiles<Weight, 2, 5, 6>();
      join_tiles<Weight, 3, 5, 7>();
    }
  }

  template <bool two_row_tiles>
  static void multiply_rows(const Product& product, int block_rows, int upper_rows) {
    const PackedWeight& weight = *product.weight;
    const FinishTile finish = finish_of<V, P::kIntegers>(product);
    const size_t stride = Rows<V>::row_bytes(product.input.precision, product.input.columns);
    const int steps = stored_inputs(weight.inputs) / kStep, end = product.row + product.rows;
    const int rows_per_step = (block_rows + steps - 1) / steps;
    alignas(64) float sums[2][kRows * kColumns];
    Pending pending;
    int turn = 0;
    for (int panel = product.panel; panel < product.panel + product.panels; ++panel) {
      auto* data = const_cast<std::byte*>(weight.data) + static_cast<size_t>(panel) * P::panel_bytes(weight.inputs);
      for (int row = product.row; row < end; row += block_rows, turn ^= 1) {
        // The last block starts early enough to be whole; only its new rows are finished.
        const int first = row + block_rows <= end ? row : end - block_rows;
        const std::byte *upper = Rows<V>::row(product.input, first), *lower = upper + stride * upper_rows,
                        *w = data + P::kHeader;
        zero_tile<0>();
        zero_tile<1>();
        if constexpr (two_row_tiles) {
          zero_tile<2>();
          zero_tile<3>();
        }
        for (int i = 0; i < steps; ++i, upper += 64, lower += 64, w += 2 * kTileBytes) {
          step<two_row_tiles>(upper, lower, stride, w);
          pending.finish_rows(finish, product, rows_per_step);
        }
        float* to = sums[turn];
        store_tile<0>(to, sizeof(float) * kColumns);
        store_tile<1>(to + 16, sizeof(float) * kColumns);
        if constexpr (two_row_tiles) {
          store_tile<2>(to + upper_rows * kColumns, sizeof(float) * kColumns);
          store_tile<3>(to + upper_rows * kColumns + 16, sizeof(float) * kColumns);
        }
        const int columns = weight.outputs - panel * kColumns;
        pending.tile = {.sums = to + (row - first) * kColumns,
                        .stride = kColumns,
                        .row = row,
                        .column = panel * kColumns,
                        .columns = columns < kColumns ? columns : kColumns,
                        .bias = P::bias(data),
                        .scale = P::kIntegers ? P::scale(data) : nullptr};
        pending.left = first + block_rows - row;
      }
    }
    pending.finish_rows(finish, product, kRows);
  }

  static void multiply(const Product& product) {
    // Blocks of equal height: a tile takes the time of its rows, and its shape is set once for all.
    const int blocks = (product.rows + kRows - 1) / kRows;
    const int block_rows = (product.rows + blocks - 1) / blocks;
    if (block_rows <= 16) {
      TileShapes(block_rows, 0).load();
      multiply_rows<false>(product, block_rows, block_rows);
    } else {
      const int upper = (block_rows + 1) / 2;
      TileShapes(upper, block_rows - upper).load();
      multiply_rows<true>(product, block_rows, upper);
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
