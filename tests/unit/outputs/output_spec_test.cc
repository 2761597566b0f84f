// SPDX-License-Identifier: Apache-2.0
#include "exeunt/outputs/output_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Labels, MultiLabelGivesLabelsAboveTheirThresholds) {
  const std::vector<float> logits{0.5F, 0.5F, -0.5F};
  OutputSpec exits{.problem = Problem::multi_label};
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0, 1));
  exits.logit_thresholds = {0, 1, -1};
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0, 2));
  exits.problem = Problem::classification;
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0)) << "of two that are equal, the first";
  exits.problem = Problem::regression;
  EXPECT_THAT(labels_of(exits, logits), IsEmpty());
}

OutputSpec tags(std::vector<float> logit_thresholds = {}) {
  return {.problem = Problem::multi_label, .labels = {"calm", "rude"}, .logit_thresholds = std::move(logit_thresholds)};
}

TEST(AnswerText, NamesALabelASetOrAValue) {
  const OutputSpec classes{.labels = {"no", "yes"}}, numbers{.problem = Problem::regression};
  EXPECT_EQ(answer_text(classes, std::vector<float>{1, 2}), "yes");
  EXPECT_EQ(answer_text({}, std::vector<float>{1, 2}), "LABEL_1") << "a model without names";
  EXPECT_EQ(answer_text(tags(), std::vector<float>{1, 2}), "calm, rude");
  EXPECT_EQ(answer_text(tags({3, 0}), std::vector<float>{1, 2}, {.separator = ","}), "rude");
  EXPECT_EQ(answer_text(tags(), std::vector<float>{-1, -2}), "");
  EXPECT_EQ(answer_text(tags(), std::vector<float>{-1, -2}, {.none = "none"}), "none");
  EXPECT_EQ(answer_text(numbers, std::vector<float>{2.5F}), "2.5");
  EXPECT_EQ(answer_text(numbers, std::vector<float>{2.5F}, {.value = "{:.3f}"}), "2.500");
}

TEST(Problem, HasANameThatIsRead) {
  for (const Problem problem : {Problem::classification, Problem::multi_label, Problem::regression})
    EXPECT_EQ(problem_named(name_of(problem)), problem);
  EXPECT_EQ(problem_named("ranking"), std::nullopt);
}

}  // namespace
}  // namespace exeunt
