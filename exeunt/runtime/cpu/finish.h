// SPDX-License-Identifier: Apache-2.0
// What happens to a tile of sums when a product is done with it: scales, bias, activation, and the way out.
#pragma once

#include <type_traits>

#include "exeunt/runtime/cpu/operand.h"
#include "exeunt/runtime/cpu/vector_math.h"

namespace exeunt::kernel {

// Sums of [rows, panel width] outputs, float or int32, with the numbers of their panel.
struct Tile {
  const void* sums = nullptr;
  int stride = 0;  // elements between its rows
  int row = 0, rows = 0, column = 0, columns = 0;
  const float *bias = nullptr, *scale = nullptr;  // from the tile's first column; scale in int8 only
};

template <class V, Finish finish, Activation activation, bool integers>
struct FinishRow {
  using F = typename V::F;

  static F value(const void* sums, int c, F scale, F bias) {
    F y;
    if constexpr (integers) {
      y = V::fma(V::from_int(static_cast<const int32_t*>(sums) + c), scale, bias);
    } else {
      y = V::load(static_cast<const float*>(sums) + c) + bias;
    }
    if constexpr (finish == Finish::activate || finish == Finish::activate_next) {
      // Integer products are followed by integer products: their activations are quantised next.
      y = activate < V, activation, integers && finish == Finish::activate > (y);
    }
    return y;
  }

  static void put(float* to, F y) {
    if constexpr (finish == Finish::add) y = V::load(to) + y;
    V::store(to, y);
  }
  static void put_part(float* to, F y, int n) {
    if constexpr (finish == Finish::add) y = V::load_part(to, n) + y;
    V::store_part(to, y, n);
  }
  static void put(uint16_t* to, F y) {
    if constexpr (V::kBf16) V::store_bf16(to, y);
  }
  static void put_part(uint16_t* to, F y, int n) {
    if constexpr (V::kBf16) V::store_bf16_part(to, y, n);
  }
};

// Where the rows of a tile go: row r is `bytes` behind row r − 1.
struct TileTarget {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// Tiles are small and many: what all rows share is read once, and whole panels need no questions about columns.
template <class V, Finish finish, Activation activation, bool integers, int vectors, class To>
void finish_rows(const Tile& tile, TileTarget target, const float* row_scales) {
  using Row = FinishRow<V, finish, activation, integers>;
  using F = typename V::F;
  const auto* sums = static_cast<const float*>(tile.sums);  // int32 is as wide
  const int stride = tile.stride, rows = tile.rows, columns = tile.columns;
  F bias[vectors], scale[vectors];
  for (int v = 0; v < vectors; ++v) {
    bias[v] = V::load(tile.bias + v * V::kWidth);
    scale[v] = V::set(0);
    if constexpr (integers) scale[v] = V::load(tile.scale + v * V::kWidth);
  }
  for (int r = 0; r < rows; ++r, sums += stride, target.data += target.bytes) {
    auto* to = reinterpret_cast<To*>(target.data);
    F row_scale = V::set(0);
    if constexpr (integers) row_scale = V::set(row_scales[r]);
    if (columns == vectors * V::kWidth) {
      F y[vectors];
      for (int v = 0; v < vectors; ++v) y[v] = Row::value(sums, v * V::kWidth, scale[v] * row_scale, bias[v]);
      for (int v = 0; v < vectors; ++v) Row::put(to + v * V::kWidth, y[v]);
    } else {
      for (int v = 0; v < vectors && v * V::kWidth < columns; ++v) {
        const F y = Row::value(sums, v * V::kWidth, scale[v] * row_scale, bias[v]);
        const int n = columns - v * V::kWidth;
        n >= V::kWidth ? Row::put(to + v * V::kWidth, y) : Row::put_part(to + v * V::kWidth, y, n);
      }
    }
  }
}

template <class V, Finish finish, Activation activation, bool integers, int vectors>
void finish_tile(const Tile& tile, const Product& product) {
  const float* scales = integers ? Rows<V>::scales(product.input) + tile.row : nullptr;
  const auto column = static_cast<size_t>(tile.column);
  if constexpr (finish == Finish::activate_next) {
    const Operand& next = product.next;
    const size_t bytes = Rows<V>::row_bytes(next.precision, next.columns);
    std::byte* row = Rows<V>::row(next, tile.row);
    if (next.precision == Precision::fp32) {
      finish_rows<V, finish, activation, integers, vectors, float>(tile, {row + column * 4, bytes}, scales);
    } else {
      finish_rows<V, finish, activation, integers, vectors, uint16_t>(tile, {row + column * 2, bytes}, scales);
    }
    if (tile.column + tile.columns != next.columns) return;
    for (int r = 0; r < tile.rows; ++r) Rows<V>::clear_padding(next, tile.row + r);
  } else {
    using To = std::conditional_t<finish == Finish::store_bf16, uint16_t, float>;
    To* to = static_cast<To*>(product.out) + static_cast<size_t>(tile.row) * product.stride + column;
    finish_rows<V, finish, activation, integers, vectors, To>(
        tile, {reinterpret_cast<std::byte*>(to), product.stride * sizeof(To)}, scales);
  }
}

using FinishTile = void (*)(const Tile&, const Product&);

template <class V, Finish finish, bool integers, int vectors>
FinishTile finish_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return finish_tile<V, finish, Activation::gelu, integers, vectors>;
    case Activation::gelu_new:
      return finish_tile<V, finish, Activation::gelu_new, integers, vectors>;
    case Activation::relu:
      return finish_tile<V, finish, Activation::relu, integers, vectors>;
  }
  return nullptr;
}

// The one function for all tiles of a product, chosen once.
template <class V, bool integers, int vectors>
FinishTile finish_of(const Product& product) {
  switch (product.finish) {
    case Finish::store:
      return finish_tile<V, Finish::store, Activation::relu, integers, vectors>;
    case Finish::add:
      return finish_tile<V, Finish::add, Activation::relu, integers, vectors>;
    case Finish::store_bf16:
      return finish_tile<V, Finish::store_bf16, Activation::relu, integers, vectors>;
    case Finish::activate:
      return finish_of<V, Finish::activate, integers, vectors>(product.activation);
    case Finish::activate_next:
      return finish_of<V, Finish::activate_next, integers, vectors>(product.activation);
  }
  return nullptr;
}

}  // namespace exeunt::kernel
