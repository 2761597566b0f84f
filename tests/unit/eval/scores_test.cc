// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/scores.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

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

TEST(Scores, CostsHaveDistinctNames) {
  const LayerCost cost = layer_cost({1, 1, 1}, {1, 2, 4});
  EXPECT_DOUBLE_EQ(cost.average_layers, 7.0 / 3);
  EXPECT_DOUBLE_EQ(cost.cost_fraction, 7.0 / 12);
  EXPECT_DOUBLE_EQ(cost.saved_fraction, 5.0 / 12);
  EXPECT_DOUBLE_EQ(cost.speedup_ratio, 12.0 / 7);
}

TEST(Scores, ScoresPolicyByAnswersAndExits) {
  const ExitTrace trace = small_trace();
  Scorer scorer(trace, {.mflops = [](int exit, int tokens, const std::vector<int>&) { return 10.0 * exit + tokens; },
                        .milliseconds =
                            [](int exit, int tokens, const std::vector<int>& evaluated) {
                              return 100.0 * exit + tokens + 1000.0 * static_cast<double>(evaluated.size());
                            }});
  const PolicyScore score = scorer.score(parse_policy("entropy:0.3"));
  EXPECT_THAT(score.histogram, ElementsAre(1, 1, 1));
  ASSERT_EQ(score.metrics.at(0).metric, Metric::accuracy);
  EXPECT_DOUBLE_EQ(score.metrics[0].value, 2.0 / 3);  // the third is wrong at the last exit
  EXPECT_DOUBLE_EQ(score.agreement, 1);
  EXPECT_DOUBLE_EQ(*score.mflops, (0 + 4 + 10 + 8 + 20 + 12) / 3.0);
  EXPECT_DOUBLE_EQ(*score.mflops_padded, (0 + 10 + 20 + 48) / 3.0);
  EXPECT_DOUBLE_EQ(*score.predicted_ms, (0 + 4 + 100 + 8 + 200 + 12) / 3.0 + 3000);
  const PolicyScore first = scorer.score(parse_policy("layer:1"));
  EXPECT_DOUBLE_EQ(*first.predicted_ms, 24 / 3.0 + 1000) << "only the first exit is asked";
  EXPECT_DOUBLE_EQ(first.metrics[0].value, 1);
  EXPECT_DOUBLE_EQ(first.agreement, 2.0 / 3);
}

TEST(Scores, WithoutGoldHasOnlyAgreement) {
  ExitTrace trace = small_trace();
  trace.gold.assign(3, std::numeric_limits<float>::quiet_NaN());
  Scorer scorer(trace);
  const PolicyScore score = scorer.score(parse_policy("full"));
  EXPECT_TRUE(score.metrics.empty());
  EXPECT_DOUBLE_EQ(score.agreement, 1);
  EXPECT_FALSE(score.mflops.has_value());
  EXPECT_FALSE(score.predicted_ms.has_value());
  EXPECT_FALSE(scorer.each_exit().front().loss.has_value());
}

TEST(Scores, EachExitHasItsOwnScore) {
  const ExitTrace trace = small_trace();
  const auto exits = Scorer(trace).each_exit();
  ASSERT_EQ(exits.size(), 3U);
  EXPECT_EQ(exits[2].layer, 4);
  EXPECT_DOUBLE_EQ(exits[0].metrics[0].value, 1);
  EXPECT_DOUBLE_EQ(exits[2].metrics[0].value, 2.0 / 3);
  // At the last exit two sure answers are right and share a bin; the third, in another one, is sure and wrong.
  const auto sure = [](double margin) { return 1 / (1 + std::exp(-margin)); };
  EXPECT_NEAR(exits[2].calibration_error, ((2 - sure(5) - sure(8)) + sure(2)) / 3, 1e-6);
  ASSERT_TRUE(exits[2].loss);
  EXPECT_NEAR(*exits[2].loss, -(std::log(sure(5)) + std::log(sure(8)) + std::log(1 - sure(2))) / 3, 1e-6);
}

TEST(Scores, CalibrationErrorIsOverFifteenBins) {
  ExitTrace trace = small_trace();
  trace.info.layers = {4};
  trace.exits = 1;
  // Confidence 0.93 is in the fourteenth bin and right; 0.95 and 1 are in the last one and wrong.
  trace.logits = {std::log(0.93F / 0.07F), 0, std::log(0.95F / 0.05F), 0, 200, 0};
  trace.gold = {0, 1, 1};
  EXPECT_NEAR(Scorer(trace).each_exit().at(0).calibration_error, ((1 - 0.93) + (0.95 + 1)) / 3, 1e-5);
}

// The score that plain PyTorch computed when it wrote the trace.
TEST(Scores, MatchesRecordedScoresOfARealTrace) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const Json made = read_json(EXEUNT_TEST_DATA "/traces/sst2-exeunt.json");
  const auto exits = Scorer(trace).each_exit();
  ASSERT_EQ(exits.size(), 12U);
  for (size_t i = 0; i < exits.size(); ++i) {
    EXPECT_THAT(exits[i].metrics.at(0).value, DoubleNear(made["scores"]["dev"][i].get<double>(), 1e-5));
  }
}

TEST(Scores, LargeDropIsAboveMaxDropOrHalfOfTheMetric) {
  EXPECT_TRUE(loses_much(0.218, 0, 0.2, 9)) << "all of it";
  EXPECT_TRUE(loses_much(0.9, 0.4, 0.6, 100)) << "half of it";
  EXPECT_TRUE(loses_much(0.9, std::nan(""), 0.6, 100));
  EXPECT_TRUE(loses_much(0.9, 0.8, 0.05, 100));
  EXPECT_FALSE(loses_much(0.9, 0.85, 0.05, 24)) << "one text";
  EXPECT_FALSE(loses_much(0.9, 0.88, 0.02, 1000));
  EXPECT_FALSE(loses_much(0.9, 0.95, 0.01, 1000));
  EXPECT_FALSE(loses_much(0.01, 0, 0.02, 1000)) << "nothing to lose";
  EXPECT_FALSE(loses_much(std::nan(""), 0, 0.02, 1000));
}

}  // namespace
}  // namespace exeunt
