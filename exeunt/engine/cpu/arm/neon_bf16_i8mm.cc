// SPDX-License-Identifier: Apache-2.0
// The table for processors that multiply small matrices of bf16 and int8 (ARMv8.6, or 8.2 with both extensions).
#include "exeunt/engine/cpu/arm/neon_table.h"

namespace exeunt::kernel {
namespace {

struct Matrix {
  static constexpr bool kBf16 = true;
  static constexpr size_t kIntegerUnit = 8;
  // In assembly: clang 14 does not compile stores of its bf16 type.
  static EXEUNT_INLINE uint16x4_t to_bf16(float32x4_t x) {
    uint16x4_t rounded;
    asm("bfcvtn %0.4h, %1.4s" : "=w"(rounded) : "w"(x));
    return rounded;
  }
};

// 2 × 2 matrices side by side become rows.
template <class Sum>
EXEUNT_INLINE void rows_of(const Sum (&matrices)[24], Sum (&rows)[24]) {
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) {
    const int pair = i / 3, q = i % 3;
    const auto left = (uint64x2_t)matrices[6 * pair + 2 * q], right = (uint64x2_t)matrices[6 * pair + 2 * q + 1];
    rows[6 * pair + q] = (Sum)vzip1q_u64(left, right);
    rows[6 * pair + 3 + q] = (Sum)vzip2q_u64(left, right);
  }
}

struct Bf16Tile : Matrix {
  static constexpr Precision kPrecision = Precision::bf16;
  using Sum = float32x4_t;
  static EXEUNT_INLINE void run(const std::byte* block, const std::byte* panel, size_t steps, Sum (&sums)[24]) {
    Sum matrices[24];
    EXEUNT_RUN(EXEUNT_MATRIX_LOOP("bfmmla", "8h"), matrices, block, panel, steps);
    rows_of(matrices, sums);
  }
};

struct Int8Tile : Matrix {
  static constexpr Precision kPrecision = Precision::int8;
  using Sum = int32x4_t;
  static EXEUNT_INLINE void run(const std::byte* block, const std::byte* panel, size_t steps, Sum (&sums)[24]) {
    Sum matrices[24];
    EXEUNT_RUN(EXEUNT_MATRIX_LOOP("smmla", "16b"), matrices, block, panel, steps);
    rows_of(matrices, sums);
  }
};

void multiply(const Product& product) {
  switch (product.weight->precision) {
    case Precision::fp32:
      return multiply_by<FloatTile<Matrix>>(product);
    case Precision::bf16:
      return multiply_by<Bf16Tile>(product);
    case Precision::int8:
      return multiply_by<Int8Tile>(product);
  }
}

constexpr Kernels table() {
  Kernels kernels = common_table<Matrix>();
  kernels.name = "neon_bf16_i8mm";
  kernels.runs_on = [](const CpuFeatures& features) { return features.neon && features.bf16 && features.i8mm; };
  kernels.multiply = multiply;
  kernels.attend = [](const Attention& work) {
    work.precision == Precision::bf16 ? Attending<Bf16Tile>::attend(work) : Attending<FloatTile<Matrix>>::attend(work);
  };
  return kernels;
}

}  // namespace

const Kernels kNeonBf16I8mm = table();

}  // namespace exeunt::kernel
