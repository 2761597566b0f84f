// SPDX-License-Identifier: Apache-2.0
#include "exeunt/outputs/evidence.h"

#include <cfloat>
#include <vector>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

Evidence of(const std::vector<float>& logits, float temperature = 1) {
  const Problem problem = logits.size() == 1 ? Problem::regression : Problem::classification;
  return compute_evidence({logits.data(), static_cast<int>(logits.size()), temperature, 0, problem});
}

TEST(Evidence, EntropyHasTheKnownValues) {
  EXPECT_NEAR(of({2, 0}).entropy, 0.365334, 1e-6);
  EXPECT_NEAR(of({2, 0}).nentropy, 0.527065, 1e-6);
  EXPECT_NEAR(of({1, 2, 3}).entropy, 0.832396, 1e-6);
  EXPECT_NEAR(of({0, 0}).entropy, 0.693147, 1e-6);
  EXPECT_NEAR(of({0, 0}).nentropy, 1, 1e-6);
}

TEST(Evidence, ProbabilitiesAreThoseOfTheSoftmax) {
  const Evidence e = of({1, 2, 3});
  EXPECT_EQ(e.label, 2);
  EXPECT_NEAR(e.confidence, 0.66524096, 1e-6);
  EXPECT_NEAR(e.margin, 0.66524096 - 0.24472847, 1e-6);
  EXPECT_NEAR(e.first, 0.09003057, 1e-6);
  EXPECT_EQ(e.value, 1);
}

TEST(Evidence, ImpurityIsGinis) {
  const double p[] = {0.66524096, 0.24472847, 0.09003057};
  EXPECT_NEAR(of({3, 2, 1}).impurity, 1 - p[0] * p[0] - p[1] * p[1] - p[2] * p[2], 1e-6);
  EXPECT_NEAR(of({0, 0, 0, 0}).impurity, 0.75, 1e-6);
  EXPECT_NEAR(of({30, 0}).impurity, 2 * std::exp(-30.0), 1e-18) << "a very sure exit keeps its digits";
  EXPECT_EQ(of({500, 0}).impurity, 0);
  EXPECT_EQ(of({1}).impurity, 0) << "a regression";
  EXPECT_NEAR(of({3, 2, 1}).least, p[2], 1e-6);
  EXPECT_NEAR(of({0, 0, 0, 0}).least, 0.25, 1e-6);
  EXPECT_NEAR(of({2, 0}).least, 1 - of({2, 0}).confidence, 1e-6);
}

TEST(Evidence, AmongEqualLogitsTheLowestIndexIsTheLabel) {
  EXPECT_EQ(of({1, 3, 3}).label, 1);
  EXPECT_EQ(of({0, 0, 0}).label, 0);
  EXPECT_EQ(of({0, 0, 0}).margin, 0);
}

TEST(Evidence, HugeLogitsGiveNumbersNotNaN) {
  for (const std::vector<float>& logits : std::vector<std::vector<float>>{{1e38F, -1e38F},
                                                                          {-1e38F, 1e38F, 0},
                                                                          {FLT_MAX, -FLT_MAX, 0},
                                                                          {FLT_MAX, FLT_MAX},
                                                                          {-FLT_MAX, -FLT_MAX, -FLT_MAX},
                                                                          {FLT_MIN, -FLT_MIN},
                                                                          {1e-45F, 0},
                                                                          {500, 0},
                                                                          {88.8F, 0, -88.8F}}) {
    for (const float temperature : {1.0F, 1e-3F, 1e3F, 1e-30F, 1e30F}) {
      const Evidence e = of(logits, temperature);
      EXPECT_GE(e.entropy, 0);
      EXPECT_LE(e.entropy, std::log(static_cast<float>(logits.size())) * 1.000001F);
      EXPECT_GE(e.impurity, 0);
      EXPECT_LT(e.impurity, 1);
      EXPECT_GT(e.confidence, 0);
      EXPECT_LE(e.confidence, 1);
      EXPECT_GE(e.margin, 0);
      EXPECT_LE(e.margin, e.confidence);
      EXPECT_GE(e.first, 0);
      EXPECT_LE(e.first, 1);
    }
  }
}

TEST(Evidence, EntropyStaysAboveZeroNearCertainty) {
  // With softmax and p ln p in fp32 this one is NaN or zero: p rounds to 1 and underflows to 0.
  EXPECT_NEAR(of({30, 0}).entropy, 2.9008e-12, 1e-15);
  EXPECT_EQ(of({500, 0}).entropy, 0);
}

TEST(Evidence, TemperatureFlattensButKeepsTheLabel) {
  EXPECT_NEAR(of({4, 0}, 2).entropy, of({2, 0}).entropy, 1e-7);
  EXPECT_EQ(of({1, 5, 2}, 10).label, 1);
  EXPECT_EQ(of({1, 5, 2}, 10).value, 1) << "a regression's value is never scaled";
}

TEST(Evidence, RegressionHasAValueAndNoEntropy) {
  const Evidence e = of({-3.5F}, 2);
  EXPECT_EQ(e.value, -3.5F);
  EXPECT_EQ(e.entropy, 0);
  EXPECT_EQ(e.nentropy, 0);
}

// JSD in double, straight from its definition.
double jsd(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t c = 0; c < p.size(); ++c) {
    const double m = (p[c] + q[c]) / 2;
    if (p[c] > 0) sum += p[c] * std::log(p[c] / m) / 2;
    if (q[c] > 0) sum += q[c] * std::log(q[c] / m) / 2;
  }
  return sum;
}

TEST(Evidence, ShiftIsTheJensenShannonDivergenceToTheExitBefore) {
  std::vector<float> memory(static_cast<size_t>(memory_floats(2)));
  const std::vector<float> a{std::log(4.0F), 0}, b{0, std::log(4.0F)}, sure{1e38F, -1e38F}, opposite{-1e38F, 1e38F};
  const auto shift = [&](const std::vector<float>& z) {
    return compute_evidence({z.data(), 2, 1, 0}, memory.data()).shift;
  };
  EXPECT_EQ(shift(a), INFINITY) << "the first exit has none before it";
  EXPECT_NEAR(shift(b), jsd({0.8, 0.2}, {0.2, 0.8}), 1e-6);
  EXPECT_EQ(shift(b), 0);
  EXPECT_NEAR(shift(sure), jsd({0.2, 0.8}, {1, 0}), 1e-6);
  EXPECT_NEAR(shift(opposite), std::log(2.0), 1e-6) << "nothing in common is the maximum, ln 2";
}

TEST(Evidence, SmallShiftsKeepTheirSize) {
  std::vector<float> memory(static_cast<size_t>(memory_floats(2)));
  const std::vector<float> a{1, 0}, b{1.001F, 0};
  (void)compute_evidence({a.data(), 2, 1, 0}, memory.data());
  const double p = 1 / (1 + std::exp(-1.0)), q = 1 / (1 + std::exp(-1.001));
  EXPECT_NEAR(compute_evidence({b.data(), 2, 1, 0}, memory.data()).shift / jsd({p, 1 - p}, {q, 1 - q}), 1, 0.01);
}

}  // namespace
}  // namespace exeunt
