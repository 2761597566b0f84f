// SPDX-License-Identifier: Apache-2.0
// The epilogue of a product: scales, bias and activation of a tile of sums, and where it is stored.
#pragma once

#include <type_traits>

#include "exeunt/engine/cpu/operand.h"
#include "exeunt/engine/cpu/vector_math.h"

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

// Rows of a tile, and where they are stored.
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

// Finishes rows of whole panels one by one: what they share is loaded once and stays in registers if begin() and row()
// are called in one function.
template <class V, Finish finish, Activation activation, bool integers, int panel_vectors, class Stored>
struct Finisher {
  using Row = FinishRow<V, finish, activation, integers>;
  using To = Stored;
  using F = typename V::F;
  static constexpr bool kIntegers = integers;
  static constexpr int kVectors = panel_vectors;

  void begin(const RowsToFinish& work) {
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = V::load(work.bias + v * V::kWidth);
      scale[v] = V::set(0);
      if constexpr (integers) scale[v] = V::load(work.scale + v * V::kWidth);
    }
    sums = work.sums;
    stride = static_cast<size_t>(work.stride);
    row_scales = work.row_scales;
    to = work.to;
    to_bytes = work.to_bytes;
    gated = work.gated;
    gated_stride = work.gated_stride;
  }

  void row() {
    F row_scale = V::set(0), y[kVectors];
    if constexpr (integers) row_scale = V::set(*row_scales++);
    for (int v = 0; v < kVectors; ++v) {
      y[v] = Row::value(sums, v * V::kWidth, scale[v] * row_scale, bias[v]);
      if constexpr (Row::kGate) y[v] = V::load(gated + v * V::kWidth) * y[v];
    }
    for (int v = 0; v < kVectors; ++v) Row::put(reinterpret_cast<To*>(to) + v * V::kWidth, y[v]);
    sums += stride;
    to += to_bytes;
    if constexpr (Row::kGate) gated += gated_stride;
  }

  F bias[kVectors], scale[kVectors];
  const float *sums, *row_scales, *gated;
  std::byte* to;
  size_t stride, to_bytes, gated_stride;
};

// The first `columns` outputs of a panel, which has more.
template <class V, class Finisher>
void finish_part_row(const RowsToFinish& work, int r) {
  using Row = typename Finisher::Row;
  using F = typename V::F;
  const float* sums = work.sums + r * work.stride;
  auto* to = reinterpret_cast<typename Finisher::To*>(work.to + static_cast<size_t>(r) * work.to_bytes);
  F row_scale = V::set(0);
  if constexpr (Finisher::kIntegers) row_scale = V::set(work.row_scales[r]);
  for (int c = 0; c < work.columns; c += V::kWidth) {
    F scale = V::set(0);
    if constexpr (Finisher::kIntegers) scale = V::load(work.scale + c) * row_scale;
    F y = Row::value(sums, c, scale, V::load(work.bias + c));
    const int n = work.columns - c;
    if constexpr (Row::kGate) {
      const float* from = work.gated + static_cast<size_t>(r) * work.gated_stride + c;
      y = (n >= V::kWidth ? V::load(from) : V::load_part(from, n)) * y;
    }
    n >= V::kWidth ? Row::put(to + c, y) : Row::put_part(to + c, y, n);
  }
}

template <class V, class Finisher>
void finish_rows(const RowsToFinish& work) {
  if (work.columns == Finisher::kVectors * V::kWidth) {
    Finisher finisher;
    finisher.begin(work);
    for (int r = 0; r < work.rows; ++r) finisher.row();
  } else {
    for (int r = 0; r < work.rows; ++r) finish_part_row<V, Finisher>(work, r);
  }
}

// Calls `act` with the Finisher of a product.
template <class V, bool integers, int vectors, class Act>
auto with_finisher(const Product& product, const Act& act) {
  return with_finish<V::kBf16>(product, [&]<Finish finish, Activation activation, Precision stored>() {
    using To = std::conditional_t<stored == Precision::bf16, uint16_t, float>;
    return act.template operator()<Finisher<V, finish, activation, integers, vectors, To>>();
  });
}

using FinishRows = void (*)(const RowsToFinish&);

template <class V, bool integers, int vectors>
FinishRows finish_of(const Product& product) {
  return with_finisher<V, integers, vectors>(product, []<class F>() -> FinishRows { return finish_rows<V, F>; });
}

}  // namespace exeunt::kernel
