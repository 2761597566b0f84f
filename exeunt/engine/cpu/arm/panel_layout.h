// SPDX-License-Identifier: Apache-2.0
// How the aarch64 tables lay out the two operands of a product.
//
// A row (of the input, or the weights of one output) is in the product's type, padded with zeros to a multiple of 16
// bytes. It is split into units: 4 bytes for instructions that multiply by one element (fmla and
// sdot), 8 bytes for those that multiply small matrices (bfmmla and smmla). The rows of a block are interleaved
// unit by unit: 8 rows of the input, or the 12 outputs of a panel. So in all precisions one step of the inner loop
// reads 128 bytes of a block and 192 bytes of a panel, both in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

#include "exeunt/engine/cpu/cpu_kernels.h"

// Functions between a tile and its store must be inlined, or its sums would pass through memory.
#define EXEUNT_INLINE inline __attribute__((always_inline))

namespace exeunt::kernel {
namespace {

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

}  // namespace
}  // namespace exeunt::kernel
