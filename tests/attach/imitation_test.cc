// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/imitation.h"

#include <cmath>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Imitation, OfEqualLogitsLosesNothing) {
  const std::vector<float> teacher{1, 2, 3, -4, 0, 2};
  const Imitation targets(teacher, {.outputs = 3}, 2);
  std::vector<float> gradient(6);
  EXPECT_EQ(targets.texts(), 2U);
  EXPECT_NEAR(targets.loss(std::vector<size_t>{0, 1}, teacher, gradient), 0, 1e-6);
  for (const float value : gradient) EXPECT_NEAR(value, 0, 1e-7);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{0, 1}, teacher), 2);
}

TEST(Imitation, CountsTextsWithTheSameLabel) {
  const Imitation targets(std::vector<float>{1, 2, 3, 1}, {.outputs = 2}, 1);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{0, 1}, std::vector<float>{0, 5, 0, 5}), 1);
  EXPECT_EQ(targets.agreement(std::vector<size_t>{1}, std::vector<float>{5, 0}), 1);
}

TEST(Imitation, IsFiniteWhereTheTeacherIsSure) {
  const Imitation targets(std::vector<float>{500, -500}, {.outputs = 2}, 1);
  std::vector<float> gradient(2);
  EXPECT_NEAR(targets.loss(std::vector<size_t>{0}, std::vector<float>{-80, 80}, gradient), 160, 1e-3);
  EXPECT_NEAR(gradient[0], -1, 1e-6);
  EXPECT_NEAR(gradient[1], 1, 1e-6);
}

TEST(Imitation, FinishesValuesInTheModelsUnit) {
  const std::vector<float> teacher{10, 14, 18};
  const Imitation targets(teacher, {.problem = Problem::regression, .outputs = 1}, 1);
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

TEST(Imitation, OfOneValueAloneKeepsItsUnit) {
  const Imitation targets(std::vector<float>{4, 4}, {.problem = Problem::regression, .outputs = 1}, 1);
  EXPECT_EQ(targets.spread(), 1);
}

}  // namespace
}  // namespace exeunt
