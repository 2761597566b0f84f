// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/imitation.h"

#include <cmath>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Imitation, LossIsZeroForEqualLogits) {
  const std::vector<float> teacher{1, 2, 3, -4, 0, 2};
  const Imitation targets(teacher, ExitLayout{{}, 3}, 2);
  std::vector<float> gradient(6);
  EXPECT_EQ(targets.texts(), 2U);
  EXPECT_NEAR(targets.loss(std::vector<size_t>{0, 1}, teacher, gradient), 0, 1e-6);
  for (const float value : gradient) EXPECT_NEAR(value, 0, 1e-7);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{0, 1}, teacher), 2);
}

TEST(Imitation, CountsTextsWithTheSameLabel) {
  const Imitation targets(std::vector<float>{1, 2, 3, 1}, ExitLayout{{}, 2}, 1);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{0, 1}, std::vector<float>{0, 5, 0, 5}), 1);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{1}, std::vector<float>{5, 0}), 1);
}

TEST(Imitation, LossIsFiniteForConfidentTeacher) {
  const Imitation targets(std::vector<float>{500, -500}, ExitLayout{{}, 2}, 1);
  std::vector<float> gradient(2);
  EXPECT_NEAR(targets.loss(std::vector<size_t>{0}, std::vector<float>{-80, 80}, gradient), 160, 1e-3);
  EXPECT_NEAR(gradient[0], -1, 1e-6);
  EXPECT_NEAR(gradient[1], 1, 1e-6);
}

// The divergence of each label's yes or no, and its gradient by differences.
TEST(Imitation, LearnsEachLabelOfMultiLabel) {
  const std::vector<float> teacher{1, -2, 0.5F, -1, 3, 0.2F};
  const ExitLayout exits{{.problem = Problem::multi_label, .logit_thresholds = {0, 0.4F, -0.3F}}, 3};
  const double temperature = 2;
  const Imitation targets(teacher, exits, temperature);
  const std::vector<size_t> both{0, 1};
  std::vector<float> student{0.3F, 0.1F, -1, -0.2F, 1, 0.7F}, gradient(6);
  const auto yes = [&](float z, float cut) { return 1 / (1 + std::exp(-(z - cut) / temperature)); };
  double wanted = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double p = yes(teacher[i], exits.logit_thresholds[i % 3]), q = yes(student[i], exits.logit_thresholds[i % 3]);
    wanted += temperature * temperature * (p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q)));
  }
  EXPECT_NEAR(targets.loss(both, student, gradient), wanted, 1e-5);
  for (size_t i = 0; i < 6; ++i) {
    constexpr float kStep = 1e-2F;
    std::vector<float> up = student, down = student;
    up[i] += kStep;
    down[i] -= kStep;
    const double slope = (targets.loss(both, up, {}) - targets.loss(both, down, {})) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope / 2, 1e-4) << "of the mean over two texts";
  }
  EXPECT_NEAR(targets.loss(both, teacher, {}), 0, 1e-6);
  EXPECT_EQ(targets.agreement(both, teacher), 2);
  EXPECT_EQ(targets.agreement(both, std::vector<float>{1, -2, 0.5F, -1, 3, -0.5F}), 1) << "one label is below its cut";
}

TEST(Imitation, FinishScalesRegressionToModelUnit) {
  const std::vector<float> teacher{10, 14, 18};
  const Imitation targets(teacher, ExitLayout{{.problem = Problem::regression}, 1}, 1);
  const double spread = std::sqrt(32.0 / 3);
  EXPECT_NEAR(targets.spread(), spread, 1e-6);
  HeadArray head({.hidden = 2, .width = 2, .outputs = 1});
  head.part(HeadArray::classifier)[0] = 3;
  head.part(HeadArray::classifier_bias)[0] = 0.5F;
  targets.finish(head);
  EXPECT_NEAR(head.part(HeadArray::classifier)[0], 3 * spread, 1e-5);
  EXPECT_NEAR(head.part(HeadArray::classifier_bias)[0], 14 + 0.5 * spread, 1e-5);
  EXPECT_NEAR(targets.loss(std::vector<size_t>{0, 2}, std::vector<float>{0, 0}, {}), 2 * 16 / (spread * spread), 1e-5);
}

TEST(Imitation, KeepsUnitWhenAllTargetsAreEqual) {
  const Imitation targets(std::vector<float>{4, 4}, ExitLayout{{.problem = Problem::regression}, 1}, 1);
  EXPECT_EQ(targets.spread(), 1);
}

}  // namespace
}  // namespace exeunt
