// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/shift.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/certify/risk.h"

namespace exeunt {
namespace {

// Losses in order of time: `before` rows of which so many are lost, evenly, then `after` rows.
std::vector<bool> losses(size_t before, double share, size_t after, double late) {
  std::vector<bool> out;
  for (size_t row = 0; row < before + after; ++row) {
    const double each = row < before ? share : late;
    const auto place = static_cast<double>(row < before ? row : row - before);
    out.push_back(std::floor((place + 1) * each) > std::floor(place * each));
  }
  return out;
}

TEST(LateLoss, IsFoundWhereTheLastRowsLoseMore) {
  const LateLoss few = *late_loss(losses(20'000, 0.015, 200, 0.15));  // 1.6 % of all
  EXPECT_GE(few.rows, 100U);
  EXPECT_LE(few.rows, 700U);
  EXPECT_GT(few.after, 4 * few.before);
  const LateLoss half = *late_loss(losses(1000, 0.01, 1000, 0.05));
  EXPECT_EQ(half.rows, 1000U);
  EXPECT_NEAR(half.before, 0.01, 1e-12);
  EXPECT_NEAR(half.after, 0.05, 1e-12);
}

TEST(LateLoss, IsNotFoundInSteadyOrBetterOrFewRows) {
  EXPECT_FALSE(late_loss(losses(10'000, 0.02, 0, 0)));
  EXPECT_FALSE(late_loss(losses(5'000, 0.05, 5'000, 0.01)));
  EXPECT_FALSE(late_loss(losses(20, 0, 10, 1)));
  EXPECT_FALSE(late_loss({}));
}

// By chance it is found in at most 1 % of steady logs.
TEST(LateLoss, IsRarelyFoundByChance) {
  constexpr int kLogs = 1000;
  int found = 0;
  std::mt19937_64 random(7);
  for (int log = 0; log < kLogs; ++log) {
    std::vector<bool> lost;
    for (int row = 0; row < 1000; ++row) lost.push_back(random() % 100 < 5);
    found += late_loss(lost) ? 1 : 0;
  }
  EXPECT_LE(found, kLogs / 100 + 3 * std::sqrt(kLogs / 100.0));
  EXPECT_GT(found, 0) << "its level is used";
}

// Tables of the chi-square distribution.
TEST(Shift, ChiSquareTailMatchesTables) {
  EXPECT_NEAR(chi_square_tail(3.841459, 1), 0.05, 1e-7);
  EXPECT_NEAR(chi_square_tail(6.634897, 1), 0.01, 1e-7);
  EXPECT_NEAR(chi_square_tail(18.307038, 10), 0.05, 1e-7);
  EXPECT_NEAR(chi_square_tail(124.342113, 100), 0.05, 1e-7);
  EXPECT_NEAR(chi_square_tail(2, 2), std::exp(-1.0), 1e-12);
  EXPECT_EQ(chi_square_tail(0, 3), 1);
  EXPECT_LT(chi_square_tail(1000, 3), 1e-100);
}

TEST(Shift, DetectsOtherSharesAndReturnsTheLargestChange) {
  const std::vector<int64_t> there{700, 200, 100}, same{350, 100, 50}, other{290, 140, 70};
  EXPECT_NEAR(shift_between(there, same)->p_value, 1, 1e-9);
  const Shift found = *shift_between(there, other);
  // By hand: chi-square = 21.3904 with two degrees of freedom, whose tail is exp(-x / 2).
  EXPECT_NEAR(found.p_value, 0.0000226537, 1e-9);
  EXPECT_EQ(found.most, 0U);
  EXPECT_NEAR(found.there, .70, 1e-12);
  EXPECT_NEAR(found.here, .58, 1e-12);
}

TEST(Shift, ReturnsNothingWithoutComparableCounts) {
  const std::vector<int64_t> none{0, 0}, some{50, 50}, three{1, 2, 3}, one{100, 0};
  EXPECT_FALSE(shift_between(none, some));
  EXPECT_FALSE(shift_between(some, none));
  EXPECT_FALSE(shift_between(some, three));
  EXPECT_FALSE(shift_between({}, {}));
  EXPECT_FALSE(shift_between(one, one));
}

// Of texts drawn alike, as many alarms as the level says; rare answers do not make more.
TEST(Shift, HasFewFalsePositivesOnEqualDistributions) {
  std::mt19937 random(7);
  std::discrete_distribution<size_t> draw{40, 30, 20, 5, 2, 1, 1, 0.5, 0.3, 0.2};
  int alarms = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<int64_t> a(10, 0), b(10, 0);
    for (int n = 0; n < 300; ++n) ++a[draw(random)];
    for (int n = 0; n < 500; ++n) ++b[draw(random)];
    alarms += shift_between(a, b)->p_value < 0.05;
  }
  EXPECT_NEAR(alarms / static_cast<double>(kDraws), 0.05, 0.02);
}

}  // namespace
}  // namespace exeunt
