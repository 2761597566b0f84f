// SPDX-License-Identifier: Apache-2.0
// How the generic and the x86 tables lay out the left operand of a product: row-major, each row in whole cache lines
// and padded with zeros, followed by one scale per row for int8.
//
// Everything here and in the other headers of templates is a template over the caller's Lanes (see generic.cc for what
// they are). Each table defines its Lanes in an anonymous namespace, so no instantiation is shared between sources that
// are compiled for different processors: the linker would keep just one of them, and perhaps the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt::kernel {

template <class V>
struct Rows {
  static constexpr size_t kLine = 64;

  static constexpr size_t element_bytes(Precision precision) {
    if (precision == Precision::fp32) return 4;
    return precision == Precision::bf16 ? 2 : V::kQuantizedBytes;
  }

  // An odd number of cache lines: adjacent rows then never map to the same L1 set.
  static constexpr size_t row_bytes(Precision precision, int columns) {
    const size_t lines = (static_cast<size_t>(columns) * element_bytes(precision) + kLine - 1) / kLine;
    return (lines | 1) * kLine;
  }

  // Blocks of 32 rows may be read as a whole, so the last one is padded.
  static constexpr size_t padded(int rows) { return (static_cast<size_t>(rows) + 31) / 32 * 32; }

  static constexpr size_t bytes(Precision precision, int rows, int columns) {
    const size_t scales = precision == Precision::int8 ? padded(rows) * sizeof(float) : 0;
    return padded(rows) * row_bytes(precision, columns) + scales;
  }

  static std::byte* row(const Operand& operand, int row) {
    return operand.data + static_cast<size_t>(row) * row_bytes(operand.precision, operand.columns);
  }

  static float* scales(const Operand& operand) {
    return reinterpret_cast<float*>(operand.data +
                                    padded(operand.rows) * row_bytes(operand.precision, operand.columns));
  }

  // Zeros after the last column, up to the end of its cache line: products read whole lines.
  static void clear_padding(const Operand& operand, int at) {
    const size_t used = static_cast<size_t>(operand.columns) * element_bytes(operand.precision);
    if (used % kLine != 0) std::memset(row(operand, at) + used, 0, kLine - used % kLine);
  }
};

template <class V>
float largest_of(const float* values, int n) {
  constexpr int w = V::kWidth;
  typename V::F most[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};  // four independent chains hide the latency
  int i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    for (int chain = 0; chain < 4; ++chain) most[chain] = V::max(most[chain], V::abs(V::load(values + i + chain * w)));
  }
  for (; i + w <= n; i += w) most[0] = V::max(most[0], V::abs(V::load(values + i)));
  if (i < n) most[1] = V::max(most[1], V::abs(V::load_part(values + i, n - i)));
  return V::largest(V::max(V::max(most[0], most[1]), V::max(most[2], most[3])));
}

// One row of fp32 values whose largest |value| is known, as int8 into row `at` of the operand.
template <class V>
void quantize_row(const float* from, float largest, const Operand& out, int at) {
  constexpr int w = V::kWidth;
  std::byte* to = Rows<V>::row(out, at);
  const int columns = out.columns;
  Rows<V>::scales(out)[at] = largest / 127.0F;
  const auto inverse = V::set(largest > 0 ? 127.0F / largest : 0.0F);
  const auto scaled = [&](int c) { return V::load(from + c) * inverse; };
  int c = 0;
  if constexpr (requires { V::store_quantized(to, inverse, inverse, inverse, inverse); }) {
    for (; c + 4 * w <= columns; c += 4 * w) {
      V::store_quantized(to + c, scaled(c), scaled(c + w), scaled(c + 2 * w), scaled(c + 3 * w));
    }
  }
  for (; c + w <= columns; c += w) V::store_quantized(to + static_cast<size_t>(c) * V::kQuantizedBytes, scaled(c));
  if (c < columns) {
    // The row ends with at least the rest of a line, so a whole vector may be written; the padding comes after.
    const auto rest = V::load_part(from + c, columns - c) * inverse;
    V::store_quantized(to + static_cast<size_t>(c) * V::kQuantizedBytes, rest);
  }
  Rows<V>::clear_padding(out, at);
}

// One row of fp32 values into row `at` of an operand in fp32 or bf16.
template <class V>
void round_row(const float* from, const Operand& out, int at) {
  constexpr int w = V::kWidth;
  std::byte* to = Rows<V>::row(out, at);
  const int columns = out.columns;
  if constexpr (V::kBf16) {
    if (out.precision == Precision::bf16) {
      auto* bf16 = reinterpret_cast<uint16_t*>(to);
      int c = 0;
      for (; c + w <= columns; c += w) V::store_bf16(bf16 + c, V::load(from + c));
      if (c < columns) V::store_bf16_part(bf16 + c, V::load_part(from + c, columns - c), columns - c);
      Rows<V>::clear_padding(out, at);
      return;
    }
  }
  std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
}

template <class V>
void pack_row(const float* from, const Operand& out, int at) {
  if (out.precision == Precision::int8) {
    quantize_row<V>(from, largest_of<V>(from, out.columns), out, at);
  } else {
    round_row<V>(from, out, at);
  }
}

template <class V>
void pack_bf16_rows(const uint16_t* data, size_t stride, const Operand& out, int row, int rows) {
  for (int r = row; r < row + rows; ++r) {
    std::memcpy(Rows<V>::row(out, r), data + static_cast<size_t>(r) * stride,
                static_cast<size_t>(out.columns) * sizeof(uint16_t));
    Rows<V>::clear_padding(out, r);
  }
}

template <class V>
void pack_rows(const float* data, size_t stride, const Operand& out, int row, int rows) {
  for (int r = row; r < row + rows; ++r) pack_row<V>(data + static_cast<size_t>(r) * stride, out, r);
}

}  // namespace exeunt::kernel
