// SPDX-License-Identifier: Apache-2.0
// What happens to a tile of sums when a product is done with it: scales, bias, activation, and the way out.
#pragma once

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

  static F value(const Tile& tile, const void* sums, F row_scale, int c) {
    F y;
    if constexpr (integers) {
      y = V::fma(V::from_int(static_cast<const int32_t*>(sums) + c), V::load(tile.scale + c) * row_scale,
                 V::load(tile.bias + c));
    } else {
      y = V::load(static_cast<const float*>(sums) + c) + V::load(tile.bias + c);
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

  template <class To>
  static void run(const Tile& tile, const void* sums, float row_scale, To* to) {
    const F scale = V::set(row_scale);
    int c = 0;
    for (; c + V::kWidth <= tile.columns; c += V::kWidth) put(to + c, value(tile, sums, scale, c));
    if (c < tile.columns) put_part(to + c, value(tile, sums, scale, c), tile.columns - c);
  }
};

template <class V, Finish finish, Activation activation, bool integers>
void finish_tile(const Tile& tile, const Product& product) {
  using Row = FinishRow<V, finish, activation, integers>;
  const float* scales = integers ? Rows<V>::scales(product.input) + tile.row : nullptr;
  for (int r = 0; r < tile.rows; ++r) {
    const int row = tile.row + r;
    const void* sums = static_cast<const float*>(tile.sums) + r * tile.stride;  // int32 is as wide
    const float scale = integers ? scales[r] : 0.0F;
    if constexpr (finish == Finish::activate_next) {
      std::byte* to = Rows<V>::row(product.next, row);
      const auto column = static_cast<size_t>(tile.column);
      if (product.next.precision == Precision::fp32) {
        Row::run(tile, sums, scale, reinterpret_cast<float*>(to) + column);
      } else {
        Row::run(tile, sums, scale, reinterpret_cast<uint16_t*>(to) + column);
      }
      if (tile.column + tile.columns == product.next.columns) Rows<V>::clear_padding(product.next, row);
    } else {
      const size_t at = static_cast<size_t>(row) * product.stride + static_cast<size_t>(tile.column);
      if constexpr (finish == Finish::store_bf16) {
        Row::run(tile, sums, scale, static_cast<uint16_t*>(product.out) + at);
      } else {
        Row::run(tile, sums, scale, static_cast<float*>(product.out) + at);
      }
    }
  }
}

using FinishTile = void (*)(const Tile&, const Product&);

template <class V, Finish finish, bool integers>
FinishTile finish_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return finish_tile<V, finish, Activation::gelu, integers>;
    case Activation::gelu_new:
      return finish_tile<V, finish, Activation::gelu_new, integers>;
    case Activation::relu:
      return finish_tile<V, finish, Activation::relu, integers>;
  }
  return nullptr;
}

// The one function for all tiles of a product, chosen once.
template <class V, bool integers>
FinishTile finish_of(const Product& product) {
  switch (product.finish) {
    case Finish::store:
      return finish_tile<V, Finish::store, Activation::relu, integers>;
    case Finish::add:
      return finish_tile<V, Finish::add, Activation::relu, integers>;
    case Finish::store_bf16:
      return finish_tile<V, Finish::store_bf16, Activation::relu, integers>;
    case Finish::activate:
      return finish_of<V, Finish::activate, integers>(product.activation);
    case Finish::activate_next:
      return finish_of<V, Finish::activate_next, integers>(product.activation);
  }
  return nullptr;
}

}  // namespace exeunt::kernel
