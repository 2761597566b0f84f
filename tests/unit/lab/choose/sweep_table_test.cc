// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/sweep_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

// Three texts, three exits after layers 1, 2 and 4, two classes.
ExitTrace small_trace() {
  ExitTrace trace;
  trace.info.labels = {"no", "yes"};
  trace.info.layers = {1, 2, 4};
  trace.info.max_length = 16;
  trace.rows = 3;
  trace.exits = 3;
  trace.width = 2;
  trace.logits = {5, 0, 5,    0,    5, 0,   // sure of "no" at once
                  0, 1, 0,    6,    0, 8,   // unsure, then sure of "yes"
                  1, 0, 0.5F, 0.4F, 0, 2};  // changes its mind at the end
  trace.gold = {0, 1, 0};
  trace.lengths = {4, 8, 12};
  trace.index = {0, 1, 2};
  return trace;
}

TEST(Sweep, FrontIsParetoOptimal) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  Scorer scorer(trace);
  const auto policies = parse_sweep("entropy:0..0.6/0.1");
  const auto rows = sweep(scorer, policies, Metric::accuracy);
  ASSERT_EQ(rows.size(), 7U);
  for (const SweepRow& row : rows) {
    for (const SweepRow& other : rows) {
      if (!row.on_front) continue;
      EXPECT_FALSE(other.score.metrics[0].value > row.score.metrics[0].value &&
                   other.score.cost.average_layers <= row.score.cost.average_layers);
    }
  }
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.on_front; }));
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_LE(rows[i].score.cost.average_layers, rows[i - 1].score.cost.average_layers);
  }
}

TEST(Sweep, FrontLeavesOutEqualScoresAtHigherCost) {
  const ExitTrace trace = small_trace();
  Scorer scorer(trace);
  const auto rows = sweep(scorer, parse_sweep("layer:1|2|4"), Metric::accuracy);  // 1, 1 and 2/3
  EXPECT_TRUE(rows[0].on_front);
  EXPECT_FALSE(rows[1].on_front);
  EXPECT_FALSE(rows[2].on_front);
}

TEST(Sweep, RowsHaveStableKeys) {
  const ExitTrace trace = small_trace();
  Scorer scorer(trace);
  const auto rows = sweep(scorer, std::vector{parse_policy("entropy:0.1,0.2,0.3")}, Metric::accuracy);
  const OrderedJson json = sweep_json(rows);
  for (const char* key : {"policy", "accuracy", "average_layers", "cost_fraction", "saved_fraction", "speedup_ratio",
                          "mflops", "predicted_ms"}) {
    EXPECT_TRUE(json[0].contains(key)) << key;
  }
  const std::string csv = sweep_csv(rows);
  EXPECT_THAT(csv, HasSubstr("policy,accuracy,"));
  EXPECT_THAT(csv, HasSubstr("\"entropy:0.1,0.2,0.3\","));
}

}  // namespace
}  // namespace exeunt
