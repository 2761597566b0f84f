// SPDX-License-Identifier: Apache-2.0
// What the two aarch64 tables have in common.
#pragma once

#include "exeunt/runtime/cpu/arm/attention.h"
#include "exeunt/runtime/cpu/arm/multiply.h"
#include "exeunt/runtime/cpu/arm/tile.h"
#include "exeunt/runtime/cpu/tables.h"

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
    float* row = work.data + static_cast<size_t>(r) * work.stride;
    const float largest = normalize_row<Lanes>(work, row);
    if (work.next.data == nullptr) continue;
    if (work.next.precision == Precision::int8) {  // the row is still in L1
      row_scales(work.next)[r] =
          put_int8<M::kIntegerUnit, kTileRows>(row, work.columns, largest, place_of_row<M>(work.next, r));
    } else {
      put_row<M, kTileRows>(work.next.precision, row, work.columns, place_of_row<M>(work.next, r));
    }
  }
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
          .multiply = nullptr,
          .normalize = normalize_and_pack<M>,
          .attention_scratch = [](Precision precision, int tokens,
                                  int head_width) { return HeadRoom(precision, tokens, head_width).bytes(); },
          .attend = nullptr,
          .read = read<Lanes>,
          .dot = dot<Lanes>,
          .tanh = tanh_all<Lanes>};
}

}  // namespace
}  // namespace exeunt::kernel
