// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/drift.h"

#include <cmath>

#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

// Four texts, two exits, two classes: each pair of logits is (x, 0).
ExitTrace trace_of(const std::vector<float>& firsts) {
  ExitTrace trace;
  trace.rows = 4;
  trace.exits = 2;
  trace.width = 2;
  trace.info.weights = "w";
  trace.info.engine = "cpu/generic";
  trace.info.precision = "fp32";
  trace.info.labels = {"no", "yes"};
  trace.info.layers = {3, 6};
  for (const float x : firsts) trace.logits.insert(trace.logits.end(), {x, 0});
  trace.gold.assign(4, NAN);
  trace.index = {0, 1, 2, 3};
  trace.lengths = {5, 5, 5, 5};
  return trace;
}

const std::vector<float> kBefore = {4, 4, 0.1F, 4, -4, 4, 0.1F, -4};  // the first exit is sure of texts 1 and 3

TEST(Drift, IsZeroBetweenEqualTraces) {
  const Drift d = drift(trace_of(kBefore), trace_of(kBefore), parse_policy("entropy:0.2"));
  EXPECT_EQ(d.rows, 4U);
  EXPECT_EQ(d.labels + d.full_labels + d.exits + d.largest_logit, 0);
  EXPECT_DOUBLE_EQ(d.average_layers_before, (3 + 6 + 3 + 6) / 4.0);
}

TEST(Drift, CountsLabelsAndExitsThatChange) {
  std::vector<float> moved = kBefore;
  moved[0] = 0.2F;  // text 1 stays, and its label is the same at the end
  moved[4] = 4;     // text 3 leaves with the other label
  moved[7] = 0.5F;  // text 4: another label at full depth
  const Drift d = drift(trace_of(kBefore), trace_of(moved), parse_policy("entropy:0.2"));
  EXPECT_DOUBLE_EQ(d.exits, 0.25);
  EXPECT_DOUBLE_EQ(d.labels, 0.5);
  EXPECT_DOUBLE_EQ(d.full_labels, 0.25);
  EXPECT_DOUBLE_EQ(d.average_layers_after, (6 + 6 + 3 + 6) / 4.0);
  EXPECT_DOUBLE_EQ(d.largest_logit, 8);
  EXPECT_NEAR(d.mean_logit, (3.8 + 8 + 4.5) / 16, 1e-6);
}

// Text 1 stays where it used to leave, and its label changes on the way.
TEST(Drift, ComparesAnswersAtEachTracesExit) {
  std::vector<float> moved = kBefore;
  moved[0] = 0.2F;
  moved[1] = -4;
  const Drift d = drift(trace_of(kBefore), trace_of(moved), parse_policy("entropy:0.2"));
  EXPECT_DOUBLE_EQ(d.exits, 0.25);
  EXPECT_DOUBLE_EQ(d.labels, 0.25);
}

TEST(Drift, HasOneLineSummary) {
  ExitTrace after = trace_of(kBefore);
  after.info.precision = "int8";
  EXPECT_THAT(drift_line(trace_of(kBefore), after, parse_policy("entropy:0.2")),
              HasSubstr("cpu/generic fp32 → cpu/generic int8: 0.00 % of labels and 0.00 % of exits change "
                        "(entropy:0.2, 4 texts)"));
}

TEST(Drift, RejectsTracesOfOtherModelsOrTexts) {
  ExitTrace other = trace_of(kBefore);
  other.info.weights = "v";
  EXPECT_THAT(error_of([&] { (void)drift(trace_of(kBefore), other, parse_policy("full")); }).what(),
              HasSubstr("different models"));
  other = trace_of(kBefore);
  other.index[2] = 9;
  EXPECT_THAT(error_of([&] { (void)drift(trace_of(kBefore), other, parse_policy("full")); }).what(),
              HasSubstr("different texts"));
}

}  // namespace
}  // namespace exeunt
