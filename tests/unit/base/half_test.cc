// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/fixtures/float_to_fp16.h"

namespace exeunt {
namespace {

TEST(Half, Fp16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(fp16_to_float(float_to_fp16(value))));
    } else {
      ASSERT_EQ(float_to_fp16(value), bits);
    }
  }
}

TEST(Half, Bf16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_bf16(value), bits);
  }
}

// Rounding is to nearest, ties to even: checked against the definition by trying both neighbours.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float middle = (fp16_to_float(low) + fp16_to_float(high)) / 2;
    ASSERT_EQ(float_to_fp16(middle), (bits & 1U) == 0 ? low : high);
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 1e9F)), high);
  }
  EXPECT_EQ(float_to_fp16(65519.9F), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_bf16(1.00390625F), 0x3f80);  // halfway: even wins
  EXPECT_EQ(float_to_bf16(1.01171875F), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace exeunt
