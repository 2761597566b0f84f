// SPDX-License-Identifier: Apache-2.0
#include "exeunt/tasks/class_report.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(ClassReport, ClassesThatDoNotOccurCountForNothing) {
  const ClassReport report = class_report(std::vector<float>{0, 0}, std::vector<float>{0, 0}, 3);
  EXPECT_EQ(report.macro_f1, 1);
  EXPECT_EQ(report.classes[1].f1, 0);
  EXPECT_EQ(class_report({}, {}, 2).macro_f1, 0);
}

}  // namespace
}  // namespace exeunt
