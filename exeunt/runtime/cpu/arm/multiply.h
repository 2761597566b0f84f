// SPDX-License-Identifier: Apache-2.0
// The loops around a tile, and the epilogue on its sums while they are still in registers: scales, bias, activation and
// store. For any tile T, which defines
//   kPrecision, Sum                the kind of product, and of its sums: float32x4_t or int32x4_t
//   kBf16                          whether this table has bf16, with to_bf16(values)
//   run(block, panel, steps, sums) 8 rows by 12 outputs; sums[3 r + q] are the outputs 4 q … 4 q + 3 of row r
#pragma once

#include <cstring>

#include <arm_neon.h>

#include "exeunt/runtime/cpu/arm/pack.h"
#include "exeunt/runtime/cpu/vector_math.h"

namespace exeunt::kernel {
namespace {

// The position of a tile in its product.
struct Place {
  const Product* product = nullptr;
  const float *bias = nullptr, *scale = nullptr;  // of the panel
  int row = 0;                                    // of the product, the tile's first
  int first = 0, last = 0;                        // the rows of the tile to be stored: [first, last)
  int column = 0, columns = 0;                    // the panel's first, and how many of its 12 there are
};

template <class T>
struct Finishing {
  static constexpr bool kIntegers = T::kPrecision == Precision::int8;
  using Row = float32x4_t[3];

  // y of the tile's row r from its sums.
  static EXEUNT_INLINE void value(const Place& place, const typename T::Sum (&sums)[24], int r, Row& y) {
    float32x4_t row_scale = vdupq_n_f32(0);
    if constexpr (kIntegers) row_scale = vld1q_dup_f32(row_scales(place.product->input) + place.row + r);
    for (int q = 0; q < 3; ++q) {
      const float32x4_t bias = vld1q_f32(place.bias + 4 * q);
      if constexpr (kIntegers) {
        const float32x4_t scale = vmulq_f32(vld1q_f32(place.scale + 4 * q), row_scale);
        y[q] = vfmaq_f32(bias, vcvtq_f32_s32(sums[3 * r + q]), scale);
      } else {
        y[q] = vaddq_f32(sums[3 * r + q], bias);
      }
    }
  }

  template <Activation activation, bool rough>
  static EXEUNT_INLINE void activate_row(Row& y) {
    for (int q = 0; q < 3; ++q) y[q] = activate<Lanes, activation, rough>(y[q]);
  }

  // What a gate multiplies. Of a tile that is not whole only the outputs there are, and zeros.
  template <bool whole>
  static EXEUNT_INLINE void pass_gate(const Place& place, int r, Row& y) {
    const Product& p = *place.product;
    const float* from = static_cast<const float*>(p.out) + static_cast<size_t>(place.row + r) * p.stride + place.column;
    for (int q = 0; q < 3; ++q) {
      const float32x4_t gated = whole ? vld1q_f32(from + 4 * q) : quad_of(from, 4 * q, place.columns);
      y[q] = vmulq_f32(gated, y[q]);
    }
  }

  static EXEUNT_INLINE void put(const Place& place, int r, const Row& y, bool add) {
    const Product& p = *place.product;
    float* to = static_cast<float*>(p.out) + static_cast<size_t>(place.row + r) * p.stride + place.column;
    for (int q = 0; q < 3; ++q) vst1q_f32(to + 4 * q, add ? vaddq_f32(vld1q_f32(to + 4 * q), y[q]) : y[q]);
  }
  static void put_part(const Place& place, int r, const Row& y, bool add) {
    const Product& p = *place.product;
    float* to = static_cast<float*>(p.out) + static_cast<size_t>(place.row + r) * p.stride + place.column;
    float values[kTileColumns];
    for (int q = 0; q < 3; ++q) vst1q_f32(values + 4 * q, y[q]);
    for (int c = 0; c < place.columns; ++c) to[c] = add ? to[c] + values[c] : values[c];
  }

  static EXEUNT_INLINE uint16_t* bf16_row(const Place& place, int r) {
    const Product& p = *place.product;
    return static_cast<uint16_t*>(p.out) + static_cast<size_t>(place.row + r) * p.stride + place.column;
  }
  static EXEUNT_INLINE void put_bf16(const Place& place, int r, const Row& y) {
    for (int q = 0; q < 3; ++q) vst1_u16(bf16_row(place, r) + 4 * q, T::to_bf16(y[q]));
  }
  static void put_bf16_part(const Place& place, int r, const Row& y) {
    uint16_t values[kTileColumns];
    for (int q = 0; q < 3; ++q) vst1_u16(values + 4 * q, T::to_bf16(y[q]));
    for (int c = 0; c < place.columns; ++c) bf16_row(place, r)[c] = values[c];
  }

  // Four values of a row of the next operand, from column c on.
  template <Precision precision>
  static EXEUNT_INLINE void put_quad(std::byte* row, int c, float32x4_t y) {
    std::byte* to = row + static_cast<size_t>(c) * element_bytes(precision) * kTileRows;
    if constexpr (precision == Precision::fp32) {
      store_step<4, kTileRows>(to, 0, vreinterpretq_u8_f32(y));
    } else {
      vst1_u16(reinterpret_cast<uint16_t*>(to), T::to_bf16(y));
    }
  }
  template <Precision precision>
  static EXEUNT_INLINE void put_next(const Place& place, int r, const Row& y) {
    std::byte* row = units_of_row<precision>(place.product->next, place.row + r);
    for (int q = 0; q < 3; ++q) put_quad<precision>(row, place.column + 4 * q, y[q]);
  }
  // Outputs beyond the last are zero, because their weights and biases are, so they pad the last step of the next
  // operand; what the last panel does not reach is cleared.
  template <Precision precision>
  static void put_next_part(const Place& place, int r, const Row& y) {
    const Operand& next = place.product->next;
    std::byte* row = units_of_row<precision>(next, place.row + r);
    const auto end = static_cast<int>(row_bytes(precision, next.columns) / element_bytes(precision));
    for (int q = 0; q < 3; ++q) {
      if (place.column + 4 * q < end) put_quad<precision>(row, place.column + 4 * q, y[q]);
    }
    if (place.column + place.columns < next.columns) return;
    for (int c = place.column + kTileColumns; c < end; c += 4) put_quad<precision>(row, c, vdupq_n_f32(0));
  }

  template <Finish finish, Activation activation, Precision next, bool whole>
  static EXEUNT_INLINE void finish_row(const Place& place, const typename T::Sum (&sums)[24], int r) {
    Row y;
    value(place, sums, r, y);
    // The activation of an integer product is quantised next, so an approximation suffices.
    if constexpr (finish == Finish::activate) activate_row<activation, kIntegers>(y);
    if constexpr (finish == Finish::activate_next) activate_row<activation, false>(y);
    if constexpr (finish == Finish::gate || finish == Finish::gate_next) pass_gate<whole>(place, r, y);
    if constexpr (finish == Finish::activate_next || finish == Finish::gate_next) {
      whole ? put_next<next>(place, r, y) : put_next_part<next>(place, r, y);
    } else if constexpr (finish == Finish::store_bf16) {
      whole ? put_bf16(place, r, y) : put_bf16_part(place, r, y);
    } else {
      whole ? put(place, r, y, finish == Finish::add) : put_part(place, r, y, finish == Finish::add);
    }
  }

  template <Finish finish, Activation activation, Precision next>
  static __attribute__((noinline, flatten)) void finish_part(const Place& place, const typename T::Sum (&sums)[24]) {
    const int first = place.first > 0 ? place.first : 0, last = place.last < kTileRows ? place.last : kTileRows;
    for (int r = first; r < last; ++r) finish_row<finish, activation, next, false>(place, sums, r);
  }

  // A whole tile is stored from registers; any other passes through memory, with the same arithmetic.
  template <Finish finish, Activation activation, Precision next>
  static EXEUNT_INLINE void finish_tile(const Place& place, const typename T::Sum (&sums)[24]) {
    bool whole = place.first <= 0 && place.last >= kTileRows && place.columns == kTileColumns;
    constexpr bool to_next = finish == Finish::activate_next || finish == Finish::gate_next;
    if (to_next && place.column + kTileColumns >= place.product->next.columns) whole = false;
    if (__builtin_expect(whole, 1)) {
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) finish_row<finish, activation, next, true>(place, sums, r);
    } else {
      // Copies, so that the originals need no address and stay in registers.
      const Place there = place;
      typename T::Sum copy[24];
#pragma GCC unroll 24
      for (int i = 0; i < 24; ++i) copy[i] = sums[i];
      finish_part<finish, activation, next>(there, copy);
    }
  }
};

template <class T, Finish finish, Activation activation, Precision next>
__attribute__((flatten)) void multiply_so(const Product& product) {
  const PackedWeight& weight = *product.weight;
  const size_t row_length = row_bytes(T::kPrecision, weight.inputs);
  const int end = product.row + product.rows;
  Place place{.product = &product};
  for (int panel = product.panel; panel < product.panel + product.panels; ++panel) {
    const std::byte* data = weight.data + static_cast<size_t>(panel) * panel_bytes(T::kPrecision, weight.inputs);
    place.bias = reinterpret_cast<const float*>(data);
    place.scale = place.bias + kHeader / 2 / sizeof(float);
    place.column = panel * kTileColumns;
    place.columns = weight.outputs - place.column < kTileColumns ? weight.outputs - place.column : kTileColumns;
    for (int row = product.row / kTileRows * kTileRows; row < end; row += kTileRows) {
      place.row = row;
      place.first = product.row - row;
      place.last = end - row;
      const std::byte* block = product.input.data + scale_bytes(product.input) + static_cast<size_t>(row) * row_length;
      typename T::Sum sums[24];
      T::run(block, data + kHeader, row_length / kStep, sums);
      Finishing<T>::template finish_tile<finish, activation, next>(place, sums);
    }
  }
}

template <class T, Finish finish, Precision next = Precision::fp32>
void multiply_activated(const Product& product) {
  switch (product.activation) {
    case Activation::gelu:
      return multiply_so<T, finish, Activation::gelu, next>(product);
    case Activation::gelu_new:
      return multiply_so<T, finish, Activation::gelu_new, next>(product);
    case Activation::relu:
      return multiply_so<T, finish, Activation::relu, next>(product);
  }
}

template <class T>
void multiply_rows(const Product& product) {
  constexpr Activation none = Activation::relu;
  switch (product.finish) {
    case Finish::store:
      return multiply_so<T, Finish::store, none, Precision::fp32>(product);
    case Finish::add:
      return multiply_so<T, Finish::add, none, Precision::fp32>(product);
    case Finish::activate:
      return multiply_activated<T, Finish::activate>(product);
    case Finish::store_bf16:
      if constexpr (T::kBf16) multiply_so<T, Finish::store_bf16, none, Precision::fp32>(product);
      return;
    case Finish::gate:
      return multiply_so<T, Finish::gate, none, Precision::fp32>(product);
    case Finish::gate_next:
      if constexpr (T::kBf16) {
        if (product.next.precision == Precision::bf16) {
          return multiply_so<T, Finish::gate_next, none, Precision::bf16>(product);
        }
      }
      return multiply_so<T, Finish::gate_next, none, Precision::fp32>(product);
    case Finish::activate_next:
      if constexpr (T::kBf16) {
        if (product.next.precision == Precision::bf16) {
          return multiply_activated<T, Finish::activate_next, Precision::bf16>(product);
        }
      }
      return multiply_activated<T, Finish::activate_next>(product);
  }
}

// As many rows at a time as stay in the L2 cache while all panels pass.
template <class T>
void multiply_by(const Product& product) {
  constexpr size_t cache = size_t{1} << 19;
  constexpr int least = 16 * kTileRows;
  const auto most = static_cast<int>(cache / row_bytes(T::kPrecision, product.weight->inputs)) / kTileRows * kTileRows;
  const int rows_at_once = most < least ? least : most;
  Product part = product;
  for (int row = 0; row < product.rows; row += rows_at_once) {
    part.row = product.row + row;
    part.rows = product.rows - row < rows_at_once ? product.rows - row : rows_at_once;
    multiply_rows<T>(part);
  }
}

}  // namespace
}  // namespace exeunt::kernel
