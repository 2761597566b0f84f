// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/uncertainty.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

constexpr Metric kAccuracy[] = {Metric::accuracy};
constexpr Metric kF1[] = {Metric::accuracy, Metric::f1};

TEST(Uncertainty, ShareHasWilsonInterval) {
  // z² = 3.8415: of none among ten the upper end is z² / (n + z²).
  EXPECT_NEAR(share_bounds(0, 10).high, 3.8415 / 13.8415, 1e-4);
  EXPECT_DOUBLE_EQ(share_bounds(0, 10).low, 0);
  EXPECT_NEAR(share_bounds(5, 10).low, 0.2366, 1e-4);
  EXPECT_NEAR(share_bounds(5, 10).high, 0.7634, 1e-4);
  EXPECT_NEAR(share_bounds(10, 10).low, 10 / 13.8415, 1e-4);
  EXPECT_DOUBLE_EQ(share_bounds(0, 0).high, 1) << "nothing seen, nothing known";
}

// `rows` answers of which every fifth is wrong; gold takes turns.
struct SomeWrong {
  explicit SomeWrong(size_t rows) {
    for (size_t row = 0; row < rows; ++row) {
      gold.push_back(static_cast<float>(row % 2));
      predicted.push_back(row % 5 == 0 ? 1 - gold[row] : gold[row]);
    }
  }
  [[nodiscard]] Answers answers() const { return {predicted, gold}; }
  std::vector<float> predicted, gold;
};

TEST(Uncertainty, OtherMetricsUseTheBootstrap) {
  const SomeWrong few(100), many(1600);
  const Judge judge{kF1, Metric::f1};
  const Bounds wide = score_bounds(judge, few.answers()), narrow = score_bounds(judge, many.answers());
  const double value = value_of(judge, few.answers());
  EXPECT_DOUBLE_EQ(value, 0.8) << "ten of either kind of error, forty hits";
  EXPECT_LT(wide.low, value);
  EXPECT_GT(wide.high, value);
  // Sixteen times the rows: a quarter of the width.
  EXPECT_NEAR((wide.high - wide.low) / (narrow.high - narrow.low), 4, 1);
  EXPECT_EQ(score_bounds({kAccuracy, Metric::accuracy}, few.answers()).low, share_bounds(80, 100).low);

  // All of one class, so that F1 is 2p / (1 + p) for a share p of hits, whose interval is p ± 1.96 √(p (1 - p) / n).
  // One interval of a few hundred draws is a little too wide or narrow; ten of them agree.
  double widths = 0;
  for (int tenth = 1; tenth <= 10; ++tenth) {
    const std::vector<float> gold(static_cast<size_t>(400 * tenth), 1);
    std::vector<float> predicted = gold;
    for (size_t row = 0; row < predicted.size(); row += 5) predicted[row] = 0;
    const Bounds got = score_bounds(judge, {predicted, gold});
    const double reach = 1.96 * std::sqrt(0.8 * 0.2 / static_cast<double>(gold.size()));
    const auto f1 = [](double share) { return 2 * share / (1 + share); };
    widths += (got.high - got.low) / (f1(0.8 + reach) - f1(0.8 - reach)) / 10;
  }
  EXPECT_NEAR(widths, 1, 0.05);
}

// The same rows give the same interval everywhere.
TEST(Uncertainty, BootstrapIsFixed) {
  const SomeWrong some(50);
  SomeWrong other(50);
  other.predicted[3] = 0;
  const Judge judge{kF1, Metric::f1};
  const Bounds bounds = score_bounds(judge, some.answers());
  EXPECT_NEAR(bounds.low, 0.66666666666666663, 1e-9);
  EXPECT_NEAR(bounds.high, 0.89795918367346939, 1e-9);
  const Difference difference = difference_of(judge, some.answers(), other.answers());
  EXPECT_NEAR(difference.value, 0.024489795918367419, 1e-9);
  EXPECT_NEAR(difference.error, 0.023748606666499323, 1e-9);
  EXPECT_NEAR(difference.bounds.low, 0, 1e-9);
  EXPECT_NEAR(difference.bounds.high, 0.074534161490683148, 1e-9);
  const Difference accuracy = difference_of({kAccuracy, Metric::accuracy}, some.answers(), other.answers());
  EXPECT_NEAR(accuracy.bounds.low, -0.083658334006352641, 1e-9);
  EXPECT_NEAR(accuracy.bounds.high, 0.12096288274536857, 1e-9);
}

TEST(Uncertainty, DifferenceIsPairedByRow) {
  SomeWrong one(1000), other(1000);
  const Judge judge{kAccuracy, Metric::accuracy};
  const Difference none = difference_of(judge, one.answers(), other.answers());
  EXPECT_EQ(none.value, 0);
  EXPECT_EQ(none.error, 0) << "both are wrong in the same rows";
  EXPECT_LT(none.bounds.low, -0.003) << "a thousand rows without a difference do not exclude one";
  EXPECT_GT(none.bounds.high, 0.003);
  EXPECT_LT(none.bounds.high, 0.006);
  for (size_t row = 1; row < 1000; row += 20) other.predicted[row] = 1 - other.gold[row];
  const Difference some = difference_of(judge, one.answers(), other.answers());
  EXPECT_NEAR(some.value, 0.05, 1e-12);
  EXPECT_NEAR(some.error, std::sqrt(0.05 * 0.95 / 1000), 0.001);
  EXPECT_LT(some.bounds.low, 0.05);
  EXPECT_GT(some.bounds.high, 0.05);
  EXPECT_GT(some.bounds.low, 0.025);
  EXPECT_LT(some.bounds.high, 0.075);
}

}  // namespace
}  // namespace exeunt
