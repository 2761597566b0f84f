// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/sweep_model.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sweep, MarksBestCheckpointOfEachSetting) {
  const auto with = [](double first, double second) {
    std::vector<SweepRow> rows(2);
    rows[0].score.metrics = {{Metric::accuracy, first}};
    rows[1].score.metrics = {{Metric::accuracy, second}};
    rows[0].score.policy = "entropy:0.1";
    rows[1].score.policy = "entropy:0.2";
    return rows;
  };
  std::vector<Swept> all(3);
  all[0].rows = with(0.8, 0.6);
  all[1].rows = with(0.9, 0.6);
  all[2].rows = with(std::nan(""), 0.5);
  for (const int i : {0, 1, 2}) all[static_cast<size_t>(i)].checkpoint = fmt::format("checkpoint-{}", 5 * i + 5);
  mark_best(all, Metric::accuracy);
  EXPECT_THAT(all[0].best, ElementsAre(false, true)) << "a tie goes to the first";
  EXPECT_THAT(all[1].best, ElementsAre(true, false));
  EXPECT_THAT(all[2].best, ElementsAre(false, false)) << "no number is not the best one";
  const OrderedJson json = checkpoints_json(all);
  ASSERT_EQ(json.size(), 6U);
  EXPECT_EQ(json[2]["checkpoint"], "checkpoint-10");
  EXPECT_EQ(json[2]["best"], true);
  EXPECT_EQ(json[4]["accuracy"], nullptr);
  const std::string csv = csv_of(checkpoints_json(all));
  EXPECT_THAT(csv, testing::StartsWith("checkpoint,policy,accuracy,"));
  EXPECT_THAT(csv, HasSubstr(",pareto,best\ncheckpoint-5,entropy:0.1,0.8,"));
}

}  // namespace
}  // namespace exeunt
