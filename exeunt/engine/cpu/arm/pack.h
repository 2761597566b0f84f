// SPDX-License-Identifier: Apache-2.0
// How the aarch64 tables lay out the two operands of a product.
//
// A row (of the input, or the weights of one output) is in the product's type, padded with zeros to a multiple of 16
// bytes. It is split into units: 4 bytes for instructions that multiply by one element (fmla and
// sdot), 8 bytes for those that multiply small matrices (bfmmla and smmla). The rows of a block are interleaved
// unit by unit: 8 rows of the input, or the 12 outputs of a panel. So in all precisions one step of the inner loop
// reads 128 bytes of a block and 192 bytes of a panel, both in order.
//
// Rows of fp32 values rounded or quantised into operands and panels. For any machine M, which gives
//   kBf16, to_bf16   whether it has bf16, and the rounding to it
//   kIntegerUnit     the bytes of a unit of int8 values
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <arm_neon.h>

#include "exeunt/engine/cpu/operand.h"

// Functions between a tile and its store must be inlined, or its sums would pass through memory.
#define EXEUNT_INLINE inline __attribute__((always_inline))

namespace exeunt::kernel {
namespace {

// Vectors of four floats for the templates over Lanes (generic.cc explains them), by the instructions every aarch64
// processor has. In an anonymous namespace: each source compiles its own, for its own processors.
struct Lanes {
  static constexpr int kWidth = 4;
  using F = float32x4_t;

  static F set(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  // The first n < kWidth values, and zeros.
  static F load_part(const float* p, int n) {
    float values[kWidth] = {};
    std::memcpy(values, p, static_cast<size_t>(n) * sizeof(float));
    return load(values);
  }
  static void store_part(float* p, F x, int n) {
    float values[kWidth];
    store(values, x);
    std::memcpy(p, values, static_cast<size_t>(n) * sizeof(float));
  }
  static F first(F x, int n) {
    constexpr int32_t places[] = {0, 1, 2, 3};
    const uint32x4_t kept = vcltq_s32(vld1q_s32(places), vdupq_n_s32(n));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), kept));
  }

  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F max(F a, F b) { return vmaxq_f32(a, b); }
  static F min(F a, F b) { return vminq_f32(a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F round(F a) { return vrndnq_f32(a); }
  // a · 2^n for whole n between −126 and 127.
  static F times_power_of_two(F a, F n) {
    const int32x4_t bits = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(bits));
  }

  // c[0] + c[1] x + …, four coefficients at a time as the lanes of one register. With Horner's rule each step would
  // first copy its coefficient, because fmla overwrites its accumulator, and a copy costs as much as a product.
  template <size_t n>
  static inline __attribute__((always_inline)) F polynomial(const float (&c)[n], F x) {
    const F x2 = vmulq_f32(x, x);
    const F powers[] = {x, x2, vmulq_f32(x2, x), vmulq_f32(x2, x2)};
    return group<0>(c, powers);
  }
  // c[at] + (c[at + 1] x + … + c[at + 4] x⁴) + x⁴ (the groups behind), where only the first group has its c[at].
  template <size_t at, size_t n>
  static inline __attribute__((always_inline)) F group(const float (&c)[n], const F (&x)[4]) {
    constexpr size_t count = n - 1 - at < 4 ? n - 1 - at : 4;
    float lanes[4] = {};
    for (size_t i = 0; i < count; ++i) lanes[i] = c[at + 1 + i];
    const F by = vld1q_f32(lanes);
    F sum = at == 0 ? vfmaq_laneq_f32(vdupq_n_f32(c[0]), x[0], by, 0) : vmulq_laneq_f32(x[0], by, 0);
    if constexpr (count > 1) sum = vfmaq_laneq_f32(sum, x[1], by, 1);
    if constexpr (count > 2) sum = vfmaq_laneq_f32(sum, x[2], by, 2);
    if constexpr (count > 3) sum = vfmaq_laneq_f32(sum, x[3], by, 3);
    if constexpr (at + 5 < n) sum = vfmaq_f32(sum, group<at + 4>(c, x), x[3]);
    return sum;
  }

  static void transpose(F (&x)[kWidth]) {
    const float32x4_t ab[] = {vtrn1q_f32(x[0], x[1]), vtrn2q_f32(x[0], x[1])},
                      cd[] = {vtrn1q_f32(x[2], x[3]), vtrn2q_f32(x[2], x[3])};
    for (int i = 0; i < 2; ++i) {
      const float64x2_t left = vreinterpretq_f64_f32(ab[i]), right = vreinterpretq_f64_f32(cd[i]);
      x[i] = vreinterpretq_f32_f64(vtrn1q_f64(left, right));
      x[i + 2] = vreinterpretq_f32_f64(vtrn2q_f64(left, right));
    }
  }

  static float sum(F a) { return vaddvq_f32(a); }
  static float largest(F a) { return vmaxvq_f32(a); }
};

constexpr int kTileRows = 8, kTileColumns = 12;
constexpr size_t kStep = 16;     // bytes of one row in one step of the inner loop
constexpr size_t kAhead = 64;    // the inner loop reads this far beyond its last step, and drops it
constexpr size_t kHeader = 128;  // in front of each panel: 12 biases, then from byte 64 on 12 scales

constexpr size_t element_bytes(Precision precision) {
  if (precision == Precision::fp32) return 4;
  return precision == Precision::bf16 ? 2 : 1;
}
// Of an operand that activations are written into.
constexpr size_t unit_bytes(Precision precision) {
  return precision == Precision::fp32 ? 4 : 8;
}
constexpr size_t row_bytes(Precision precision, int columns) {
  return (static_cast<size_t>(columns) * element_bytes(precision) + kStep - 1) / kStep * kStep;
}
constexpr size_t blocks_of(int rows) {
  return (static_cast<size_t>(rows) + kTileRows - 1) / kTileRows;
}

constexpr size_t panel_bytes(Precision precision, int inputs) {
  return kHeader + kTileColumns * row_bytes(precision, inputs);
}
constexpr size_t packed_bytes(Precision precision, int inputs, int outputs) {
  const size_t panels = (static_cast<size_t>(outputs) + kTileColumns - 1) / kTileColumns;
  return panels * panel_bytes(precision, inputs) + kAhead;
}

// An operand: one scale per row (int8), then its blocks.
constexpr size_t scale_bytes(const Operand& operand) {
  if (operand.precision != Precision::int8) return 0;
  return (blocks_of(operand.rows) * kTileRows * sizeof(float) + 63) / 64 * 64;
}
constexpr size_t operand_bytes(Precision precision, int rows, int columns) {
  return scale_bytes({.precision = precision, .rows = rows}) +
         blocks_of(rows) * kTileRows * row_bytes(precision, columns) + kAhead;
}
inline float* row_scales(const Operand& operand) {
  return reinterpret_cast<float*>(operand.data);
}
// Where the units of a row of an operand without scales begin; they are kTileRows units apart.
template <Precision precision>
std::byte* units_of_row(const Operand& operand, int row) {
  const auto r = static_cast<size_t>(row);
  const size_t block = r / kTileRows * kTileRows * row_bytes(precision, operand.columns);
  return operand.data + block + r % kTileRows * unit_bytes(precision);
}

// Puts 16 bytes of a row, the step'th of it, in its place among `rows` rows.
template <size_t unit, size_t rows>
EXEUNT_INLINE void store_step(std::byte* row, size_t step, uint8x16_t bytes) {
  std::byte* to = row + step * kStep * rows;
  if constexpr (unit == 8) {
    const uint64x2_t units = vreinterpretq_u64_u8(bytes);
    vst1q_lane_u64(reinterpret_cast<uint64_t*>(to), units, 0);
    vst1q_lane_u64(reinterpret_cast<uint64_t*>(to + unit * rows), units, 1);
  } else {
    const uint32x4_t units = vreinterpretq_u32_u8(bytes);
    vst1q_lane_u32(reinterpret_cast<uint32_t*>(to), units, 0);
    vst1q_lane_u32(reinterpret_cast<uint32_t*>(to + unit * rows), units, 1);
    vst1q_lane_u32(reinterpret_cast<uint32_t*>(to + 2 * unit * rows), units, 2);
    vst1q_lane_u32(reinterpret_cast<uint32_t*>(to + 3 * unit * rows), units, 3);
  }
}

// The bytes of a row as they are, with zeros up to a whole step.
template <size_t unit, size_t rows>
void put_bytes(const void* from, size_t bytes, std::byte* to) {
  const auto* data = static_cast<const uint8_t*>(from);
  size_t step = 0;
  for (; (step + 1) * kStep <= bytes; ++step) store_step<unit, rows>(to, step, vld1q_u8(data + step * kStep));
  if (step * kStep == bytes) return;
  uint8_t last[kStep] = {};
  std::memcpy(last, data + step * kStep, bytes - step * kStep);
  store_step<unit, rows>(to, step, vld1q_u8(last));
}

// Four values from column c of n on, zeros where there is none.
inline float32x4_t quad_of(const float* row, int c, int n) {
  if (c + 4 <= n) return vld1q_f32(row + c);
  return c < n ? Lanes::load_part(row + c, n - c) : vdupq_n_f32(0);
}

// 16 values as int8, each rounded to the nearest after scaling.
EXEUNT_INLINE uint8x16_t quantized(const float32x4_t (&x)[4], float inverse) {
  int32x4_t q[4];
  for (int i = 0; i < 4; ++i) q[i] = vcvtnq_s32_f32(vmulq_n_f32(x[i], inverse));
  const int16x8_t low = vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3]));
  return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

// `largest` is the largest |value|. Returns the scale.
template <size_t unit, size_t rows>
float put_int8(const float* from, int n, float largest, std::byte* to) {
  const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
  int c = 0;
  for (; c + 16 <= n; c += 16) {
    const float32x4_t x[4] = {vld1q_f32(from + c), vld1q_f32(from + c + 4), vld1q_f32(from + c + 8),
                              vld1q_f32(from + c + 12)};
    store_step<unit, rows>(to, static_cast<size_t>(c) / 16, quantized(x, inverse));
  }
  if (c < n) {
    const float32x4_t x[4] = {quad_of(from, c, n), quad_of(from, c + 4, n), quad_of(from, c + 8, n),
                              quad_of(from, c + 12, n)};
    store_step<unit, rows>(to, static_cast<size_t>(c) / 16, quantized(x, inverse));
  }
  return largest / 127.0F;
}

template <class M, size_t rows>
void put_bf16(const float* from, int n, std::byte* to) {
  for (int c = 0; c < n; c += 8) {
    const uint16x8_t x = vcombine_u16(M::to_bf16(quad_of(from, c, n)), M::to_bf16(quad_of(from, c + 4, n)));
    store_step<8, rows>(to, static_cast<size_t>(c) / 8, vreinterpretq_u8_u16(x));
  }
}

// One row, in any precision, into its place among `rows` others; returns its scale (int8).
template <class M, size_t rows>
float put_row(Precision precision, const float* from, int n, std::byte* to) {
  if (precision == Precision::int8)
    return put_int8<M::kIntegerUnit, rows>(from, n, kernel::largest_of<Lanes>(from, n), to);
  if constexpr (M::kBf16) {
    if (precision == Precision::bf16) {
      put_bf16<M, rows>(from, n, to);
      return 0;
    }
  }
  put_bytes<4, rows>(from, static_cast<size_t>(n) * sizeof(float), to);
  return 0;
}

template <class M>
size_t unit_of(Precision precision) {
  return precision == Precision::int8 ? M::kIntegerUnit : unit_bytes(precision);
}

// Where the units of a row begin.
template <class M>
std::byte* place_of_row(const Operand& out, int row) {
  const auto r = static_cast<size_t>(row);
  const size_t block = r / kTileRows * kTileRows * row_bytes(out.precision, out.columns);
  return out.data + scale_bytes(out) + block + r % kTileRows * unit_of<M>(out.precision);
}

template <class M>
void pack_rows(const float* data, size_t stride, const Operand& out, int row, int rows) {
  for (int r = row; r < row + rows; ++r) {
    const float* from = data + static_cast<size_t>(r) * stride;
    const float scale = put_row<M, kTileRows>(out.precision, from, out.columns, place_of_row<M>(out, r));
    if (out.precision == Precision::int8) row_scales(out)[r] = scale;
  }
}

template <class M>
void pack_bf16_rows(const uint16_t* data, size_t stride, const Operand& out, int row, int rows) {
  const size_t bytes = static_cast<size_t>(out.columns) * sizeof(uint16_t);
  for (int r = row; r < row + rows; ++r) {
    put_bytes<8, kTileRows>(data + static_cast<size_t>(r) * stride, bytes, place_of_row<M>(out, r));
  }
}

template <class M>
void pack_weight(const PackedWeight& shape, const float* weight, const float* bias, std::byte* out) {
  std::memset(out, 0, packed_bytes(shape.precision, shape.inputs, shape.outputs));
  for (int output = 0; output < shape.outputs; ++output) {
    std::byte* panel = out + static_cast<size_t>(output / kTileColumns) * panel_bytes(shape.precision, shape.inputs);
    const auto c = static_cast<size_t>(output % kTileColumns);
    const float* from = weight + static_cast<size_t>(output) * static_cast<size_t>(shape.inputs);
    std::byte* to = panel + kHeader + c * unit_of<M>(shape.precision);
    auto* header = reinterpret_cast<float*>(panel);
    header[c] = bias[output];
    header[kHeader / 2 / sizeof(float) + c] = put_row<M, kTileColumns>(shape.precision, from, shape.inputs, to);
  }
}

}  // namespace
}  // namespace exeunt::kernel
