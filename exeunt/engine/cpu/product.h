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
//   run(Block)               the sums, over all inputs in one order whatever the number of rows
#pragma once

#include "exeunt/engine/cpu/finish.h"

namespace exeunt::kernel {

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
      B::run(block);
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

  static void run(const Block& block) {
    run({.a = reinterpret_cast<const float*>(block.input),
         .a_stride = block.stride / sizeof(float),
         .b = reinterpret_cast<const float*>(block.panel),
         .sums = static_cast<float*>(block.sums)},
        block.rows, block.inputs);
  }
};

}  // namespace exeunt::kernel
