// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/data/metrics.h"

namespace exeunt {
namespace {

// scikit-learn 1.4: classification_report and confusion_matrix of these rows.
TEST(ClassReport, HasTheFiguresOfEachClass) {
  const std::vector<float> gold{0, 0, 0, 1, 1, 2, 2, 2, 2, 0}, said{0, 1, 0, 1, 2, 2, 2, 0, 2, 0};
  const ClassReport report = class_report(said, gold, 3);
  EXPECT_DOUBLE_EQ(report.classes[0].precision, 0.75);
  EXPECT_DOUBLE_EQ(report.classes[0].recall, 0.75);
  EXPECT_DOUBLE_EQ(report.classes[1].precision, 0.5);
  EXPECT_DOUBLE_EQ(report.classes[1].recall, 0.5);
  EXPECT_DOUBLE_EQ(report.classes[2].f1, 0.75);
  EXPECT_EQ(report.classes[2].support, 4);
  EXPECT_DOUBLE_EQ(report.macro_f1, (0.75 + 0.5 + 0.75) / 3);
  EXPECT_DOUBLE_EQ(report.micro_f1, 0.7);
  EXPECT_DOUBLE_EQ(report.weighted_f1, 0.7);
  EXPECT_THAT(report.confusion, testing::ElementsAre(3, 1, 0, 0, 1, 1, 1, 0, 3));
}

TEST(ClassReport, NamesTheMostFrequentMistakesFirst) {
  const ClassReport report = class_report(std::vector<float>{1, 1, 2, 0, 1}, std::vector<float>{0, 0, 0, 1, 1}, 3);
  const std::vector<ConfusedPair> worst = report.worst(2);
  ASSERT_EQ(worst.size(), 2U);
  EXPECT_EQ(worst[0].rows, 2);
  EXPECT_EQ(worst[0].answer, 1U);
  EXPECT_EQ(worst[1].gold, 0U);
  EXPECT_EQ(report.worst(9).size(), 3U);
}

TEST(ClassReport, IgnoresClassesThatDoNotOccur) {
  const ClassReport report = class_report(std::vector<float>{0, 0}, std::vector<float>{0, 0}, 3);
  EXPECT_EQ(report.macro_f1, 1);
  EXPECT_EQ(report.classes[1].f1, 0);
  EXPECT_EQ(class_report({}, {}, 2).macro_f1, 0);
}

// By scikit-learn's definitions for indicator matrices, worked out by hand.
TEST(SetReport, HasScikitLearnsFigures) {
  const std::vector<float> gold{1, 0, 0, /**/ 1, 1, 0, /**/ 0, 0, 0, /**/ 1, 1, 0};
  const std::vector<float> said{1, 0, 0, /**/ 1, 0, 1, /**/ 1, 0, 0, /**/ 0, 1, 0};
  const ClassReport report = set_report(said, gold, 3);
  // Label 0: 2 right of 3 said and 3 true; label 1: 1 right of 1 and 2; label 2: none of 1 and 0.
  EXPECT_NEAR(report.classes[0].f1, 2.0 / 3, 1e-12);
  EXPECT_NEAR(report.classes[1].f1, 2.0 / 3, 1e-12);
  EXPECT_EQ(report.classes[2].f1, 0);
  EXPECT_NEAR(report.classes[1].precision, 1, 1e-12);
  EXPECT_NEAR(report.classes[1].recall, 0.5, 1e-12);
  EXPECT_NEAR(report.macro_f1, 4.0 / 9, 1e-12);
  EXPECT_NEAR(report.micro_f1, 6.0 / 10, 1e-12);
  EXPECT_NEAR(report.weighted_f1, 2.0 / 3, 1e-12);
  EXPECT_TRUE(report.worst(5).empty());
  EXPECT_NEAR(exact_match(said, gold, 3), 0.25, 1e-12);
  const std::vector<Score> scores = score_sets(default_metrics(Problem::multi_label, 3), said, gold, 3);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].metric, Metric::exact_match);
  EXPECT_NEAR(scores[1].value, 0.6, 1e-12);
  EXPECT_TRUE(std::isnan(exact_match({}, {}, 3)));
  EXPECT_EQ(set_report(std::vector<float>{1, 0}, std::vector<float>{1, 0}, 2).macro_f1, 0.5);
}

}  // namespace
}  // namespace exeunt
