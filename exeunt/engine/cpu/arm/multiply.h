// SPDX-License-Identifier: Apache-2.0
// The loops around a tile, and the epilogue on its sums while they are still in registers: scales, bias, activation and
// store. For any tile T, which defines
//   kPrecision, Sum                the kind of product, and of its sums: float32x4_t or int32x4_t
//   kBf16                          whether this table has bf16, with to_bf16(values)
//   run(block, panel, steps, sums) 8 rows by 12 outputs; sums[3 r + q] are the outputs 4 q … 4 q + 3 of row r
#pragma once

#include <cstring>

#include <arm_neon.h>

#include "exeunt/engine/cpu/arm/pack.h"
#include "exeunt/engine/cpu/vector_math.h"

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
  static constexpr bool into_next(Finish finish) {
    return finish == Finish::activate_next || finish == Finish::gate_next;
  }
  static constexpr bool gates(Finish finish) { return finish == Finish::gate || finish == Finish::gate_next; }

  // y of four columns from the sums of one row; `scale` is that of the columns times that of the row.
  static EXEUNT_INLINE float32x4_t value(typename T::Sum sums, float32x4_t scale, float32x4_t bias) {
    if constexpr (kIntegers) {
      return vfmaq_f32(bias, vcvtq_f32_s32(sums), scale);
    } else {
      return vaddq_f32(sums, bias);
    }
  }

  template <Finish finish, Activation activation>
  static EXEUNT_INLINE float32x4_t activated(float32x4_t y) {
    // The activation of an integer product is quantised next, so an approximation suffices.
    if constexpr (finish == Finish::activate) return activate<Lanes, activation, kIntegers>(y);
    if constexpr (finish == Finish::activate_next) return activate<Lanes, activation, false>(y);
    return y;
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

  // What a gate multiplies in row r of the tile.
  static EXEUNT_INLINE const float* gated_row(const Place& place, int r) {
    const Product& p = *place.product;
    return static_cast<const float*>(p.out) + static_cast<size_t>(place.row + r) * p.stride + place.column;
  }

  // Where row r of the tile goes.
  template <Finish finish, Precision next>
  static EXEUNT_INLINE std::byte* row_of(const Place& place, int r) {
    const Product& p = *place.product;
    const int row = place.row + r;
    const auto column = static_cast<size_t>(place.column);
    if constexpr (into_next(finish)) {
      return units_of_row<next>(p.next, row) + column * element_bytes(next) * kTileRows;
    }
    const size_t element = finish == Finish::store_bf16 ? sizeof(uint16_t) : sizeof(float);
    return static_cast<std::byte*>(p.out) + (static_cast<size_t>(row) * p.stride + column) * element;
  }

  // Four values of such a row, from the tile's column c on.
  template <Finish finish, Precision next>
  static EXEUNT_INLINE void put(std::byte* row, int c, float32x4_t y) {
    if constexpr (into_next(finish)) {
      put_quad<next>(row, c, y);
    } else if constexpr (finish == Finish::store_bf16) {
      vst1_u16(reinterpret_cast<uint16_t*>(row) + c, T::to_bf16(y));
    } else {
      float* to = reinterpret_cast<float*>(row) + c;
      vst1q_f32(to, finish == Finish::add ? vaddq_f32(vld1q_f32(to), y) : y);
    }
  }

  // All rows of a whole tile, four columns after four: what they have in common is loaded once, and eight independent
  // vectors keep all pipes busy.
  template <Finish finish, Activation activation, Precision next>
  static EXEUNT_INLINE void finish_whole(const Place& place, const typename T::Sum (&sums)[24]) {
    float32x4_t row_scale[2] = {};
    if constexpr (kIntegers) {
      for (int i = 0; i < 2; ++i) row_scale[i] = vld1q_f32(row_scales(place.product->input) + place.row + 4 * i);
    }
    std::byte* rows[kTileRows];
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) rows[r] = row_of<finish, next>(place, r);
#pragma GCC unroll 3
    for (int q = 0; q < 3; ++q) {
      const float32x4_t bias = vld1q_f32(place.bias + 4 * q), scale = vld1q_f32(place.scale + 4 * q);
      float32x4_t y[kTileRows];
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) y[r] = value(sums[3 * r + q], scale * row_scale[r / 4][r % 4], bias);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        y[r] = activated<finish, activation>(y[r]);
        if constexpr (gates(finish)) y[r] = vmulq_f32(vld1q_f32(gated_row(place, r) + 4 * q), y[r]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) put<finish, next>(rows[r], 4 * q, y[r]);
    }
  }

  // The same for a tile at an edge, row by row: those of [first, last), and the columns that there are.
  template <Finish finish, Activation activation, Precision next>
  static __attribute__((noinline, flatten)) void finish_part(const Place& place, const typename T::Sum (&sums)[24]) {
    const int first = place.first > 0 ? place.first : 0, last = place.last < kTileRows ? place.last : kTileRows;
    for (int r = first; r < last; ++r) {
      const float row_scale = kIntegers ? row_scales(place.product->input)[place.row + r] : 0;
      float values[kTileColumns];
      for (int q = 0; q < 3; ++q) {
        const float32x4_t bias = vld1q_f32(place.bias + 4 * q), scale = vld1q_f32(place.scale + 4 * q);
        float32x4_t y = activated<finish, activation>(value(sums[3 * r + q], vmulq_n_f32(scale, row_scale), bias));
        // Of what a gate multiplies, only the columns there are, and zeros.
        if constexpr (gates(finish)) y = vmulq_f32(quad_of(gated_row(place, r), 4 * q, place.columns), y);
        vst1q_f32(values + 4 * q, y);
      }
      put_part<finish, next>(place, r, values);
    }
  }

  template <Finish finish, Precision next>
  static void put_part(const Place& place, int r, const float (&values)[kTileColumns]) {
    std::byte* row = row_of<finish, next>(place, r);
    if constexpr (into_next(finish)) {
      put_next_part<next>(place, row, values);
    } else if constexpr (finish == Finish::store_bf16) {
      uint16_t rounded[kTileColumns];
      for (int c = 0; c < kTileColumns; c += 4) vst1_u16(rounded + c, T::to_bf16(vld1q_f32(values + c)));
      std::memcpy(row, rounded, static_cast<size_t>(place.columns) * sizeof(uint16_t));
    } else {
      auto* to = reinterpret_cast<float*>(row);
      for (int c = 0; c < place.columns; ++c) to[c] = finish == Finish::add ? to[c] + values[c] : values[c];
    }
  }

  // Outputs beyond the last are zero, because their weights and biases are, so they pad the last step of the next
  // operand; what the last panel does not reach is cleared.
  template <Precision precision>
  static void put_next_part(const Place& place, std::byte* row, const float (&values)[kTileColumns]) {
    const int columns = place.product->next.columns;
    const auto end = static_cast<int>(row_bytes(precision, columns) / element_bytes(precision)) - place.column;
    for (int c = 0; c < kTileColumns && c < end; c += 4) put_quad<precision>(row, c, vld1q_f32(values + c));
    if (place.column + place.columns < columns) return;
    for (int c = kTileColumns; c < end; c += 4) put_quad<precision>(row, c, vdupq_n_f32(0));
  }

  // A whole tile is stored from registers; any other passes through memory, with the same arithmetic.
  template <Finish finish, Activation activation, Precision next>
  static EXEUNT_INLINE void finish_tile(const Place& place, const typename T::Sum (&sums)[24]) {
    bool whole = place.first <= 0 && place.last >= kTileRows && place.columns == kTileColumns;
    if (into_next(finish) && place.column + kTileColumns >= place.product->next.columns) whole = false;
    if (__builtin_expect(whole, 1)) {
      finish_whole<finish, activation, next>(place, sums);
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

// The next panel's way into the L2 cache, a piece with each block of rows. Beyond this many bytes with each, it would
// wait for memory itself, and the processor does as well on its own.
constexpr size_t kMostAhead = 5120;

template <class T, Finish finish, Activation activation, Precision next>
__attribute__((flatten)) void multiply_so(const Product& product) {
  const PackedWeight& weight = *product.weight;
  const size_t row_length = row_bytes(T::kPrecision, weight.inputs);
  const int end = product.row + product.rows;
  const size_t bytes = panel_bytes(T::kPrecision, weight.inputs);
  const int blocks = (end - 1) / kTileRows - product.row / kTileRows + 1;
  const size_t piece = (bytes / static_cast<size_t>(blocks) + 63) / 64 * 64, ahead = piece <= kMostAhead ? piece : 0;
  Place place{.product = &product};
  for (int panel = product.panel; panel < product.panel + product.panels; ++panel) {
    const std::byte* data = weight.data + static_cast<size_t>(panel) * bytes;
    const bool last = (panel + 1) * kTileColumns >= weight.outputs;
    const std::byte* following = data + bytes;
    place.bias = reinterpret_cast<const float*>(data);
    place.scale = place.bias + kHeader / 2 / sizeof(float);
    place.column = panel * kTileColumns;
    place.columns = weight.outputs - place.column < kTileColumns ? weight.outputs - place.column : kTileColumns;
    for (int row = product.row / kTileRows * kTileRows; row < end; row += kTileRows) {
      if (!last) {
        for (size_t i = 0; i < ahead; i += 64) __builtin_prefetch(following + i, 0, 2);
        following += ahead;
      }
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
    with_finish<T::kBf16>(part, [&]<Finish finish, Activation activation, Precision next>() {
      multiply_so<T, finish, activation, next>(part);
    });
  }
}

}  // namespace
}  // namespace exeunt::kernel
