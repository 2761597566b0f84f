// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/answer_labels.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Labels, OfSeveralAreThoseAboveTheirThresholds) {
  const std::vector<float> logits{0.5F, 0.5F, -0.5F};
  ExitLayout exits{.problem = Problem::multi_label, .outputs = 3};
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0, 1));
  exits.cuts = {0, 1, -1};
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0, 2));
  exits.problem = Problem::classification;
  EXPECT_THAT(labels_of(exits, logits), ElementsAre(0)) << "of two that are equal, the first";
  exits.problem = Problem::regression;
  EXPECT_THAT(labels_of(exits, logits), IsEmpty());
}

}  // namespace
}  // namespace exeunt
