// SPDX-License-Identifier: Apache-2.0
// The table for every aarch64 processor: fp32 with fmla, int8 with sdot if available.
#include "exeunt/engine/cpu/arm/neon_table.h"

namespace exeunt::kernel {
namespace {

struct Base {
  static constexpr bool kBf16 = false;
  static constexpr size_t kIntegerUnit = 4;
};

// int8 without sdot: the same sums in the same layout. A product of two values of at most 127 fits int16, and so does
// the sum of two of them.
struct WideningTile : Base {
  static constexpr Precision kPrecision = Precision::int8;
  using Sum = int32x4_t;

  // Adds four inputs of a row (one lane of a) by four outputs.
  static int32x4_t add_products(int32x4_t sum, int8x16_t panel, int32_t lane) {
    const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(lane));
    const int16x8_t low = vmull_s8(vget_low_s8(panel), vget_low_s8(a)), high = vmull_high_s8(panel, a);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
  }

  static void run(const std::byte* block, const std::byte* panel, size_t steps, Sum (&sums)[24]) {
    constexpr size_t units = kStep / kIntegerUnit;
    for (int half = 0; half < 2; ++half) {  // 12 sums at a time leave registers for the rest
      int32x4_t part[12] = {};
      const auto* a = reinterpret_cast<const int32_t*>(block) + half * 4;
      const auto* b = reinterpret_cast<const int8_t*>(panel);
      for (size_t unit = 0; unit < steps * units; ++unit, a += kTileRows, b += kTileColumns * kIntegerUnit) {
        const int8x16_t b0 = vld1q_s8(b), b1 = vld1q_s8(b + 16), b2 = vld1q_s8(b + 32);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          part[3 * r] = add_products(part[3 * r], b0, a[r]);
          part[3 * r + 1] = add_products(part[3 * r + 1], b1, a[r]);
          part[3 * r + 2] = add_products(part[3 * r + 2], b2, a[r]);
        }
      }
      for (int i = 0; i < 12; ++i) sums[12 * half + i] = part[i];
    }
  }
};

void multiply(const Product& product) {
  if (product.weight->precision != Precision::int8) return multiply_by<FloatTile<Base>>(product);
  static const bool dot = cpu_features().dotprod;
  dot ? multiply_dot(product) : multiply_widening(product);
}

constexpr Kernels table() {
  Kernels kernels = common_table<Base>();
  kernels.name = "neon";
  kernels.runs_on = [](const CpuFeatures& features) { return features.neon; };
  kernels.multiply = multiply;
  kernels.attend = Attending<FloatTile<Base>>::attend;
  return kernels;
}

}  // namespace

void multiply_widening(const Product& product) {
  multiply_by<WideningTile>(product);
}

const Kernels kNeon = table();

}  // namespace exeunt::kernel
