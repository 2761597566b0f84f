// SPDX-License-Identifier: Apache-2.0
// The base table multiplies int8 by whichever instructions the processor has; both ways must give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "tests/unit/engine/cpu/kernel_cases.h"

namespace exeunt {
namespace {

TEST(Int8, IsBitEqualWithAndWithoutDotProduct) {
  if (!cpu_features().dotprod) GTEST_SKIP() << "this processor has no sdot";
  const Kernels& table = kernel::kNeon;
  for (const ProductShape& shape : {ProductShape{21, 70, 50}, ProductShape{8, 16, 12}, ProductShape{1, 3, 2}}) {
    const ProductCase c = random_product(Precision::int8, shape);
    const Packed packed(table, Precision::int8, shape, c.weight.data(), c.bias.data());
    const PackedOperand input(table, Precision::int8, shape.rows, shape.inputs);
    table.pack_rows(c.x.data(), static_cast<size_t>(shape.inputs), input.operand, 0, shape.rows);
    std::vector<std::vector<float>> results;
    for (const auto multiply : {kernel::multiply_dot, kernel::multiply_widening}) {
      results.emplace_back(cells(shape.rows, shape.outputs), NAN);
      multiply({.weight = &packed.weight,
                .input = input.operand,
                .out = results.back().data(),
                .stride = static_cast<size_t>(shape.outputs),
                .rows = shape.rows,
                .panels = panels_of(table, packed.weight)});
    }
    EXPECT_EQ(bits_of(results[0]), bits_of(results[1])) << testing::PrintToString(shape);
    EXPECT_THAT(results[0], testing::Each(testing::Not(testing::IsNan())));
  }
}

}  // namespace
}  // namespace exeunt
