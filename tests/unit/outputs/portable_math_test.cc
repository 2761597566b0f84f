// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log and log1p of our own, against the C library's in long double.
#include "exeunt/outputs/portable_math.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

// How many floats lie between two.
int64_t steps_between(float a, float b) {
  const auto place = [](float x) {
    int32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<int64_t>(bits < 0 ? INT32_MIN - bits : bits);
  };
  return std::abs(place(a) - place(b));
}

// Floats from `low` to `high`, a little apart.
template <class Visit>
void for_floats(float low, float high, Visit visit) {
  for (float x = low; x <= high; x = x + std::max(std::abs(x), 1e-30F) * 3.1e-4F) visit(x);
}

TEST(PortableMath, GivesTheNearestFloatOrItsNeighbour) {
  const auto compare = [](float x) {
    for (const float at : {x, -x}) {
      const auto wide = static_cast<long double>(at);
      EXPECT_LE(steps_between(portable::exp(at), static_cast<float>(std::exp(wide))), 1) << at;
      EXPECT_LE(steps_between(portable::expm1(at), static_cast<float>(std::expm1(wide))), 1) << at;
      if (at > 0) {
        EXPECT_LE(steps_between(portable::log(at), static_cast<float>(std::log(wide))), 1) << at;
      }
      if (at > -1) {
        EXPECT_LE(steps_between(portable::log1p(at), static_cast<float>(std::log1p(wide))), 1) << at;
      }
    }
  };
  for_floats(1e-10F, 120.0F, compare);
  for (const float tiny : {1e-42F, 1e-38F, 1e-30F, 1e-20F}) compare(tiny);
}

TEST(PortableMath, HandlesInfinityNanAndZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(portable::exp(0.0F), 1.0F);
  EXPECT_EQ(portable::exp(-kInfinity), 0.0F);
  EXPECT_EQ(portable::exp(kInfinity), kInfinity);
  EXPECT_EQ(portable::exp(-103.9F), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(portable::expm1(0.0F), 0.0F);
  EXPECT_EQ(portable::expm1(-kInfinity), -1.0F);
  EXPECT_EQ(portable::log(1.0F), 0.0F);
  EXPECT_EQ(portable::log(0.0F), -kInfinity);
  EXPECT_EQ(portable::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable::log(-1.0F)));
  EXPECT_EQ(portable::log1p(0.0F), 0.0F);
  EXPECT_EQ(portable::log1p(-1.0F), -kInfinity);
  EXPECT_TRUE(std::isnan(portable::log1p(-2.0F)));
  for (const float nan : {portable::exp(NAN), portable::expm1(NAN), portable::log(NAN), portable::log1p(NAN)})
    EXPECT_TRUE(std::isnan(nan));
}

TEST(PortableMath, IsMonotonic) {
  float exp_before = 0, log_before = -INFINITY;
  for_floats(1e-6F, 80.0F, [&](float x) {
    EXPECT_GE(portable::exp(x), exp_before);
    EXPECT_GE(portable::log(x), log_before);
    exp_before = portable::exp(x);
    log_before = portable::log(x);
  });
}

}  // namespace
}  // namespace exeunt
