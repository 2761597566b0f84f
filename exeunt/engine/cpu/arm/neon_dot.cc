// SPDX-License-Identifier: Apache-2.0
// int8 products of the base table by sdot (ARMv8.2 with dotprod).
#include "exeunt/engine/cpu/arm/neon_table.h"

namespace exeunt::kernel {
namespace {

struct DotTile {
  static constexpr bool kBf16 = false;
  static constexpr Precision kPrecision = Precision::int8;
  using Sum = int32x4_t;
  static EXEUNT_INLINE void run(const std::byte* block, const std::byte* panel, size_t steps, Sum (&sums)[24]) {
    EXEUNT_RUN(EXEUNT_LANE_LOOP("sdot", "16b", "4b"), sums, block, panel, steps);
  }
};

}  // namespace

void multiply_dot(const Product& product) {
  multiply_by<DotTile>(product);
}

}  // namespace exeunt::kernel
