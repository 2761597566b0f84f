// SPDX-License-Identifier: Apache-2.0
// The epilogue of a product: scales, bias and activation of a tile of sums, and where it is stored.
#pragma once

#include <type_traits>

#include "exeunt/runtime/cpu/operand.h"
#include "exeunt/runtime/cpu/vector_math.h"

namespace exeunt::kernel {

// Sums of [rows, panel width] outputs, float or int32, with their panel's bias and scales.
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
      // Integer products follow integer products, so their activations are quantised next.
      y = activate < V, activation, integers && finish == Finish::activate > (y);
    }
    return y;
  }

  static constexpr bool kGate = finish == Finish::gate || finish == Finish::gate_next;

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

// Rows of a tile still to be stored; finishing some of them advances to the next.
struct RowsToFinish {
  const float* sums = nullptr;  // int32 is as wide
  int stride = 0, rows = 0, columns = 0;
  const float *bias = nullptr, *scale = nullptr, *row_scales = nullptr;  // scales in int8 only
  std::byte* to = nullptr;
  size_t to_bytes = 0;           // between rows
  const float* gated = nullptr;  // what a gate multiplies, `gated_stride` apart
  size_t gated_stride = 0;
};

template <class V>
RowsToFinish rows_to_finish(const Tile& tile, const Product& product) {
  RowsToFinish work{.sums = static_cast<const float*>(tile.sums),
                    .stride = tile.stride,
                    .rows = tile.rows,
                    .columns = tile.columns,
                    .bias = tile.bias,
                    .scale = tile.scale};
  if (tile.scale != nullptr) work.row_scales = Rows<V>::scales(product.input) + tile.row;
  const auto row = static_cast<size_t>(tile.row), column = static_cast<size_t>(tile.column);
  if (product.finish == Finish::gate || product.finish == Finish::gate_next) {
    work.gated = static_cast<const float*>(product.out) + row * product.stride + column;
    work.gated_stride = product.stride;
  }
  if (product.finish != Finish::activate_next && product.finish != Finish::gate_next) {
    const size_t size = product.finish == Finish::store_bf16 ? sizeof(uint16_t) : sizeof(float);
    work.to = static_cast<std::byte*>(product.out) + (row * product.stride + column) * size;
    work.to_bytes = product.stride * size;
    return work;
  }
  const Operand& next = product.next;
  work.to = Rows<V>::row(next, tile.row) + column * Rows<V>::element_bytes(next.precision);
  work.to_bytes = Rows<V>::row_bytes(next.precision, next.columns);
  if (tile.column + tile.columns == next.columns) {
    for (int r = 0; r < tile.rows; ++r) Rows<V>::clear_padding(next, tile.row + r);
  }
  return work;
}

// The next `count` rows. Shared values are loaded once, and whole panels need no column checks.
template <class V, Finish finish, Activation activation, bool integers, int vectors, class To>
void finish_rows(RowsToFinish& work, int count) {
  using Row = FinishRow<V, finish, activation, integers>;
  using F = typename V::F;
  const int columns = work.columns;
  F bias[vectors], scale[vectors];
  for (int v = 0; v < vectors; ++v) {
    bias[v] = V::load(work.bias + v * V::kWidth);
    scale[v] = V::set(0);
    if constexpr (integers) scale[v] = V::load(work.scale + v * V::kWidth);
  }
  const float* sums = work.sums;
  std::byte* target = work.to;
  const float* gated = work.gated;
  for (int r = 0; r < count; ++r, sums += work.stride, target += work.to_bytes) {
    auto* to = reinterpret_cast<To*>(target);
    F row_scale = V::set(0);
    if constexpr (integers) row_scale = V::set(work.row_scales[r]);
    if (columns == vectors * V::kWidth) {
      F y[vectors];
      for (int v = 0; v < vectors; ++v) {
        y[v] = Row::value(sums, v * V::kWidth, scale[v] * row_scale, bias[v]);
        if constexpr (Row::kGate) y[v] = V::load(gated + v * V::kWidth) * y[v];
      }
      for (int v = 0; v < vectors; ++v) Row::put(to + v * V::kWidth, y[v]);
    } else {
      for (int v = 0; v < vectors && v * V::kWidth < columns; ++v) {
        F y = Row::value(sums, v * V::kWidth, scale[v] * row_scale, bias[v]);
        const int n = columns - v * V::kWidth;
        if constexpr (Row::kGate) {
          const float* from = gated + v * V::kWidth;
          y = (n >= V::kWidth ? V::load(from) : V::load_part(from, n)) * y;
        }
        n >= V::kWidth ? Row::put(to + v * V::kWidth, y) : Row::put_part(to + v * V::kWidth, y, n);
      }
    }
    if constexpr (Row::kGate) gated += work.gated_stride;
  }
  work.sums = sums;
  work.gated = gated;
  work.to = target;
  if constexpr (integers) work.row_scales += count;
  work.rows -= count;
}

using FinishRows = void (*)(RowsToFinish&, int count);

template <class V, Finish finish, bool integers, int vectors, class To>
FinishRows finish_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return finish_rows<V, finish, Activation::gelu, integers, vectors, To>;
    case Activation::gelu_new:
      return finish_rows<V, finish, Activation::gelu_new, integers, vectors, To>;
    case Activation::relu:
      return finish_rows<V, finish, Activation::relu, integers, vectors, To>;
  }
  return nullptr;
}

// The function for all tiles of a product, selected once.
template <class V, bool integers, int vectors>
FinishRows finish_of(const Product& product) {
  switch (product.finish) {
    case Finish::store:
      return finish_rows<V, Finish::store, Activation::relu, integers, vectors, float>;
    case Finish::add:
      return finish_rows<V, Finish::add, Activation::relu, integers, vectors, float>;
    case Finish::store_bf16:
      return finish_rows<V, Finish::store_bf16, Activation::relu, integers, vectors, uint16_t>;
    case Finish::activate:
      return finish_of<V, Finish::activate, integers, vectors, float>(product.activation);
    case Finish::gate:
      return finish_rows<V, Finish::gate, Activation::relu, integers, vectors, float>;
    case Finish::gate_next:
      if (product.next.precision == Precision::fp32)
        return finish_rows<V, Finish::gate_next, Activation::relu, integers, vectors, float>;
      return finish_rows<V, Finish::gate_next, Activation::relu, integers, vectors, uint16_t>;
    case Finish::activate_next:
      if (product.next.precision == Precision::fp32)
        return finish_of<V, Finish::activate_next, integers, vectors, float>(product.activation);
      return finish_of<V, Finish::activate_next, integers, vectors, uint16_t>(product.activation);
  }
  return nullptr;
}

}  // namespace exeunt::kernel
