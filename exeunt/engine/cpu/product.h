// SPDX-License-Identifier: Apache-2.0
// Packed weights and the loops around a block of a product, for any Lanes V and block shape B.
//
// A weight is stored in panels of B::kColumns outputs, each preceded by its bias, scales and corrections, so that a
// panel is contiguous and stays in the L1 or L2 cache while all rows pass. A block B defines
//   kColumns, kRows          outputs per panel, and the maximum number of rows computed at once
//   Weight                   how a weight is stored: float, uint16_t (bf16) or int8_t
//   kOffset                  what operands are shifted by to be unsigned (int8), or 0
//   place(k, c)              where the weight of input k and output c lies in the panel
//   stored_inputs(inputs)    the inputs a panel has room for; those after the last are zero
//   run_rows<rows>(Block)    the sums, over all inputs in one order whatever the number of rows
#pragma once

#include <type_traits>

#include "exeunt/engine/cpu/operand.h"
#include "exeunt/engine/cpu/vector_math.h"

namespace exeunt::kernel {

// The epilogue of a product: scales, bias and activation of a tile of sums, and where it is stored.

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

// Sums of `rows` ≤ kRows rows, `stride` bytes apart, against one panel, into sums [rows, kColumns].
struct Block {
  const std::byte* input = nullptr;
  size_t stride = 0;
  int rows = 0, inputs = 0;
  const std::byte* panel = nullptr;      // its weights
  const int32_t* corrections = nullptr;  // what the sums start from (int8)
  void* sums = nullptr;                  // float or int32_t
};

template <class B>
struct Panels {
  static constexpr bool kIntegers = sizeof(typename B::Weight) == 1;
  static constexpr size_t kHeader = sizeof(float) * B::kColumns * (kIntegers ? 3 : 1);

  static constexpr int count(int outputs) { return (outputs + B::kColumns - 1) / B::kColumns; }
  static constexpr size_t panel_bytes(int inputs) {
    const size_t weights = static_cast<size_t>(B::stored_inputs(inputs)) * B::kColumns * sizeof(typename B::Weight);
    return (kHeader + weights + kKernelAlignment - 1) / kKernelAlignment * kKernelAlignment;
  }
  static constexpr size_t bytes(int inputs, int outputs) {
    return static_cast<size_t>(count(outputs)) * panel_bytes(inputs);
  }

  static float* bias(std::byte* panel) { return reinterpret_cast<float*>(panel); }
  static float* scale(std::byte* panel) { return bias(panel) + B::kColumns; }
  static int32_t* corrections(std::byte* panel) { return reinterpret_cast<int32_t*>(scale(panel) + B::kColumns); }
  static typename B::Weight* weights(std::byte* panel) {
    return reinterpret_cast<typename B::Weight*>(panel + kHeader);
  }

  // One output's weights as int8 with their scale; returns their sum.
  static int32_t quantize(const float* from, int inputs, int c, std::byte* panel) {
    float largest = 0;
    for (int k = 0; k < inputs; ++k) {
      const float value = __builtin_fabsf(from[k]);
      largest = value > largest ? value : largest;
    }
    scale(panel)[c] = largest / 127.0F;
    const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
    int32_t sum = 0;
    for (int k = 0; k < inputs; ++k) {
      const auto q = static_cast<int32_t>(__builtin_rintf(from[k] * inverse));
      weights(panel)[B::place(k, c)] = static_cast<typename B::Weight>(q);
      sum += q;
    }
    return sum;
  }

  static void pack_output(const float* from, int inputs, int c, std::byte* panel) {
    if constexpr (kIntegers) {
      const int32_t sum = quantize(from, inputs, c, panel);
      corrections(panel)[c] = -B::kOffset * sum;
    } else if constexpr (sizeof(typename B::Weight) == 2) {
      for (int k = 0; k < inputs; ++k) weights(panel)[B::place(k, c)] = to_bf16(from[k]);
    } else {
      for (int k = 0; k < inputs; ++k) weights(panel)[B::place(k, c)] = from[k];
    }
  }

  static void pack(const PackedWeight& shape, const float* weight, const float* bias_from, std::byte* out) {
    std::memset(out, 0, bytes(shape.inputs, shape.outputs));
    for (int output = 0; output < shape.outputs; ++output) {
      std::byte* panel = out + static_cast<size_t>(output / B::kColumns) * panel_bytes(shape.inputs);
      const int c = output % B::kColumns;
      bias(panel)[c] = bias_from[output];
      pack_output(weight + static_cast<size_t>(output) * static_cast<size_t>(shape.inputs), shape.inputs, c, panel);
    }
  }

  // Like float_to_bf16 in exeunt/base/half.h, which is not a template and must not be compiled here.
  static uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
};

template <class B, int rows = B::kRows>
void run_block(const Block& block) {
  if constexpr (rows > 1) {
    if (block.rows < rows) return run_block<B, rows - 1>(block);
  }
  B::template run_rows<rows>(block);
}

template <class V, class B>
void multiply(const Product& product) {
  using P = Panels<B>;
  const PackedWeight& weight = *product.weight;
  const FinishRows finish = finish_of<V, P::kIntegers, B::kColumns / V::kWidth>(product);
  alignas(64) float sums[B::kRows * B::kColumns];
  Block block{.stride = Rows<V>::row_bytes(product.input.precision, product.input.columns),
              .inputs = weight.inputs,
              .sums = sums};
  Tile tile{.sums = sums, .stride = B::kColumns};
  for (int panel = product.panel; panel < product.panel + product.panels; ++panel) {
    // P's functions that return writable parts are for packing; nothing is written here.
    auto* data = const_cast<std::byte*>(weight.data) + static_cast<size_t>(panel) * P::panel_bytes(weight.inputs);
    block.panel = data + P::kHeader;
    block.corrections = P::kIntegers ? P::corrections(data) : nullptr;
    tile.bias = P::bias(data);
    tile.scale = P::kIntegers ? P::scale(data) : nullptr;
    tile.column = panel * B::kColumns;
    tile.columns = weight.outputs - tile.column < B::kColumns ? weight.outputs - tile.column : B::kColumns;
    const int end = product.row + product.rows;
    for (int row = product.row; row < end; row += B::kRows) {
      block.rows = tile.rows = end - row < B::kRows ? end - row : B::kRows;
      tile.row = row;
      block.input = Rows<V>::row(product.input, row);
      run_block<B>(block);
      finish(rows_to_finish<V>(tile, product));
    }
  }
}

// fp32: each row's value against a row of `vectors` vectors of the panel. A panel's rows are kColumns wide, and
// attention uses the same block for its matrices.
template <class V, int max_rows, int vectors>
struct FloatBlock {
  using Weight = float;
  static constexpr int kRows = max_rows, kColumns = vectors * V::kWidth, kOffset = 0;
  static constexpr size_t place(int k, int c) { return static_cast<size_t>(k) * kColumns + static_cast<size_t>(c); }
  static constexpr int stored_inputs(int inputs) { return inputs; }

  struct Matrices {
    const float* a = nullptr;  // [rows, inputs], `a_stride` floats apart
    size_t a_stride = 0;
    const float* b = nullptr;  // [inputs, kColumns], `b_stride` floats apart
    size_t b_stride = kColumns;
    float* sums = nullptr;  // [rows, kColumns], `sums_stride` floats apart
    size_t sums_stride = kColumns;
  };

  template <int rows>
  static void run_rows(const Matrices& m, int inputs) {
    typename V::F sums[rows][vectors];
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) sums[r][v] = V::set(0);
    }
    const float* b = m.b;
    for (int k = 0; k < inputs; ++k, b += m.b_stride) {
      typename V::F w[vectors];
      for (int v = 0; v < vectors; ++v) w[v] = V::load(b + v * V::kWidth);
      for (int r = 0; r < rows; ++r) {
        const auto x = V::set(m.a[static_cast<size_t>(r) * m.a_stride + static_cast<size_t>(k)]);
        for (int v = 0; v < vectors; ++v) sums[r][v] = V::fma(x, w[v], sums[r][v]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        V::store(m.sums + static_cast<size_t>(r) * m.sums_stride + v * V::kWidth, sums[r][v]);
      }
    }
  }

  template <int rows = max_rows>
  static void run(const Matrices& m, int count, int inputs) {
    if constexpr (rows > 1) {
      if (count < rows) return run<rows - 1>(m, count, inputs);
    }
    run_rows<rows>(m, inputs);
  }

  template <int rows>
  static void run_rows(const Block& block) {
    run_rows<rows>({.a = reinterpret_cast<const float*>(block.input),
                    .a_stride = block.stride / sizeof(float),
                    .b = reinterpret_cast<const float*>(block.panel),
                    .sums = static_cast<float*>(block.sums)},
                   block.inputs);
  }
};

}  // namespace exeunt::kernel
