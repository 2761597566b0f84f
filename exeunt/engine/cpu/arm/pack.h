// SPDX-License-Identifier: Apache-2.0
// Rows of fp32 values rounded or quantised into operands and panels. For any machine M, which gives
//   kBf16, to_bf16   whether it has bf16, and the rounding to it
//   kIntegerUnit     the bytes of a unit of int8 values
#pragma once

#include <cstring>

#include "exeunt/engine/cpu/arm/lanes.h"
#include "exeunt/engine/cpu/arm/panel_layout.h"
#include "exeunt/engine/cpu/operand.h"

namespace exeunt::kernel {
namespace {

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
