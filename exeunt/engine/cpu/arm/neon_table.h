// SPDX-License-Identifier: Apache-2.0
// What the two aarch64 tables have in common.
#pragma once

#include "exeunt/engine/cpu/arm/attention_neon.h"
#include "exeunt/engine/cpu/arm/multiply.h"
#include "exeunt/engine/cpu/arm/tile.h"

namespace exeunt::kernel {
namespace {

template <class M>
struct FloatTile : M {
  static constexpr Precision kPrecision = Precision::fp32;
  using Sum = float32x4_t;
  static EXEUNT_INLINE void run(const std::byte* block, const std::byte* panel, size_t steps, Sum (&sums)[24]) {
    EXEUNT_RUN(EXEUNT_LANE_LOOP("fmla", "4s", "s"), sums, block, panel, steps);
  }
};

template <class M>
void normalize_and_pack(const Normalization& work) {
  normalize_rows<Lanes>(work, [&](const float* row, float largest, int r) {
    if (work.next.precision == Precision::int8) {  // the row is still in L1
      row_scales(work.next)[r] =
          put_int8<M::kIntegerUnit, kTileRows>(row, work.columns, largest, place_of_row<M>(work.next, r));
    } else {
      put_row<M, kTileRows>(work.next.precision, row, work.columns, place_of_row<M>(work.next, r));
    }
  });
}

// Lanes with the bf16 of M, if it has that.
template <class M>
struct Bf16Lanes : Lanes {
  static constexpr bool kBf16 = M::kBf16;
  static F load_bf16(const uint16_t* p, int n) {
    uint16_t values[kWidth] = {};
    if (n < kWidth) std::memcpy(values, p, static_cast<size_t>(n) * sizeof(uint16_t));
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(n < kWidth ? values : p), 16));
  }
  static void store_bf16(uint16_t* p, F x) { vst1_u16(p, M::to_bf16(x)); }
  static void store_bf16_part(uint16_t* p, F x, int n) {
    uint16_t values[kWidth];
    store_bf16(values, x);
    std::memcpy(p, values, static_cast<size_t>(n) * sizeof(uint16_t));
  }
};

// All but the name, where it runs, and its products and attention.
template <class M>
constexpr Kernels common_table() {
  return {.name = {},
          .runs_on = nullptr,
          .prepare = [] { return true; },
          .bf16 = M::kBf16,
          .panel_outputs = [](Precision) { return kTileColumns; },
          .row_block = [](Precision) { return kTileRows; },
          .packed_bytes = packed_bytes,
          .pack_weight = pack_weight<M>,
          .operand_bytes = operand_bytes,
          .pack_rows = pack_rows<M>,
          .pack_bf16_rows = M::kBf16 ? pack_bf16_rows<M> : nullptr,
          .multiply = nullptr,
          .normalize = normalize_and_pack<M>,
          .attention_scratch = [](Precision precision, int tokens,
                                  int head_width) { return HeadRoom(precision, tokens, head_width).bytes(); },
          .attend = nullptr,
          .rotate = rotate<Bf16Lanes<M>>,
          .add_distances = add_distances<Lanes>,
          .read = read<Lanes>,
          .dot = dot<Lanes>,
          .tanh = tanh_all<Lanes>};
}

}  // namespace
}  // namespace exeunt::kernel
