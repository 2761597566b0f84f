// SPDX-License-Identifier: Apache-2.0
// What the two aarch64 tables have in common.
#pragma once

#include "exeunt/engine/cpu/arm/attention_neon.h"
#include "exeunt/engine/cpu/arm/multiply.h"
#include "exeunt/engine/cpu/arm/tile.h"
#include "exeunt/engine/cpu/tables.h"

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
  for (int r = work.row; r < work.row + work.rows; ++r) {
    float* row = written_row<Lanes>(work, r);
    const float largest = normalize_row<Lanes>(work, read_row<Lanes>(work, r), row);
    if (work.next.data == nullptr) continue;
    if (work.next.precision == Precision::int8) {  // the row is still in L1
      row_scales(work.next)[r] =
          put_int8<M::kIntegerUnit, kTileRows>(row, work.columns, largest, place_of_row<M>(work.next, r));
    } else {
      put_row<M, kTileRows>(work.next.precision, row, work.columns, place_of_row<M>(work.next, r));
    }
  }
}

// Four values of bf16 as floats.
inline float32x4_t load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

template <class M>
void rotate(const RotaryCall& call) {
  if constexpr (M::kBf16) {
    if (call.precision == Precision::bf16) {
      for (int head = 0; head < call.columns; head += 2 * call.pairs) {
        uint16_t *low = static_cast<uint16_t*>(call.row) + head, *high = low + call.pairs;
        int i = 0;
        for (; i + 4 <= call.pairs; i += 4) {
          float32x4_t a = load_bf16(low + i), b = load_bf16(high + i);
          turn<Lanes>(a, b, vld1q_f32(call.cosine + i), vld1q_f32(call.sine + i));
          vst1_u16(low + i, M::to_bf16(a));
          vst1_u16(high + i, M::to_bf16(b));
        }
        for (; i < call.pairs; ++i) {
          float32x4_t a = vreinterpretq_f32_u32(vdupq_n_u32(uint32_t{low[i]} << 16)),
                      b = vreinterpretq_f32_u32(vdupq_n_u32(uint32_t{high[i]} << 16));
          turn<Lanes>(a, b, vdupq_n_f32(call.cosine[i]), vdupq_n_f32(call.sine[i]));
          low[i] = vget_lane_u16(M::to_bf16(a), 0);
          high[i] = vget_lane_u16(M::to_bf16(b), 0);
        }
      }
      return;
    }
  }
  rotate_floats<Lanes>(call);
}

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
          .rotate = rotate<M>,
          .add_distances = add_distances<Lanes>,
          .read = read<Lanes>,
          .dot = dot<Lanes>,
          .tanh = tanh_all<Lanes>};
}

}  // namespace
}  // namespace exeunt::kernel
