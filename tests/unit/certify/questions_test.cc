// SPDX-License-Identifier: Apache-2.0
// The best K of a question are kept: what a question loses, and promises that count questions.
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/losses.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/made_questions.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const PolicySpec kFirst = parse_policy("layer:1");

std::vector<double> losses_of(const ExitTrace& trace, int best, const PolicySpec& policy = kFirst) {
  return LossMeter(trace, loss_named(fmt::format("top:{}", best)), {}).measure(policy).losses;
}

ExitTrace questions(std::vector<uint64_t> cluster, std::vector<float> logits) {
  ExitTrace trace = random_trace({.rows = cluster.size(), .exits = 2, .classes = 1});
  trace.cluster = std::move(cluster);
  trace.logits = std::move(logits);
  return trace;
}

// Rows of two questions in turns; the first exit swaps the second and third of one, the first and last of the other.
TEST(KeptTop, IsASetOfEachQuestion) {
  const ExitTrace trace = questions({7, 9, 7, 9, 7, 9}, {/* exit 1, 2 */ 9, 9, 1, 9, /**/ 3, 5, 5, 5, /**/ 5, 3, 9, 1});
  EXPECT_THAT(losses_of(trace, 1), ElementsAre(0, 1, 0, 0, 0, 0)) << "at the first row of each";
  EXPECT_THAT(losses_of(trace, 2), ElementsAre(1, 1, 0, 0, 0, 0));
  EXPECT_THAT(losses_of(trace, 3), ElementsAre(0, 0, 0, 0, 0, 0)) << "as many as there are";
  EXPECT_THAT(losses_of(trace, 1000), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(losses_of(trace, 1, PolicySpec{}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(LossMeter(trace, loss_named("top:1"), {}).counted(), ElementsAre(0, 1)) << "questions, not rows";
}

TEST(KeptTop, HasNoOrder) {
  const ExitTrace trace = questions({1, 1, 1}, {8, 9, /**/ 9, 8, /**/ 0, 0});
  EXPECT_THAT(losses_of(trace, 2), ElementsAre(0, 0, 0)) << "the best two have changed places";
  EXPECT_THAT(losses_of(trace, 1), ElementsAre(1, 0, 0));
}

TEST(KeptTop, FirstRowsOfEqualValuesAreBest) {
  const ExitTrace trace = questions({1, 1, 1}, {5, 6, /**/ 5, 5, /**/ 5, 5});
  EXPECT_THAT(losses_of(trace, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(losses_of(trace, 2), ElementsAre(0, 0, 0)) << "on both sides";
  EXPECT_THAT(losses_of(questions({1, 1}, {5, 5, /**/ 5, 6}), 1), ElementsAre(1, 0));
}

TEST(KeptTop, IsThatOfTheReference) {
  ExitTrace trace = questions({1, 1}, {1, 1, /**/ 2, 2});
  EXPECT_THAT(losses_of(trace, 1, PolicySpec{}), ElementsAre(0, 0));
  trace.reference = {2, 1};  // fp32 ranks them otherwise
  EXPECT_THAT(losses_of(trace, 1, PolicySpec{}), ElementsAre(1, 0)) << "full depth may lose, too";
}

CalibrationPlan plan_of() {
  CalibrationPlan plan{.max_drops = {0.1}, .loss = loss_named("top:2"), .families = {"patience"}};
  plan.range = {0, 10};
  return plan;
}

TEST(KeptTop, IsPromisedOfQuestions) {
  const ExitTrace rows = draw_questions(300, 1);
  const CalibrationPlan plan = plan_of();
  const CalibrationData data = split_for_calibration(rows, 42, shares_for(rows, plan, {}));
  EXPECT_EQ(data.report.rows, 0) << "300 questions are not 1,500";
  const Calibration done = calibrate(data, plan);
  const Certificate& certificate = *done.entry.certificate;
  EXPECT_EQ(certificate.method, RiskMethod::ltt_binomial);
  EXPECT_EQ(certificate.rows, certificate.clusters);
  EXPECT_EQ(4 * certificate.rows, static_cast<int64_t>(data.certify.rows));
  EXPECT_TRUE(certificate.exits.empty());
  EXPECT_EQ(promise_of(done.entry), fmt::format("at most 10 % of questions get another top 2 than by the fp32 model at "
                                                "full depth, by a test of {} questions, confidence 95 %",
                                                certificate.rows));
  EXPECT_LT(done.outcomes[0].certify_cost, 0.9);
  CalibrationPlan other = plan;
  other.cluster_by = "visit";
  EXPECT_THAT(promise_of(calibrate(data, other).entry), HasSubstr("of clusters ('visit') get another top 2"));
  // With rows that report, the interval is exact, of questions.
  const DropOutcome reported = calibrate(split_for_calibration(rows, 42), plan).outcomes[0];
  EXPECT_EQ(reported.report_rows, 60);
  EXPECT_GT(reported.interval->high, reported.report);
  EXPECT_LT(reported.interval->high, reported.report + 0.15);
}

TEST(KeptTop, NeedsQuestionsAndRefusesGroups) {
  ExitTrace rows = draw_questions(300, 1);
  CalibrationPlan plan = plan_of();
  plan.group.by = "length";
  EXPECT_THAT(error_of([&] { (void)calibrate(split_for_calibration(rows, 1), plan); }).what(),
              HasSubstr("groups by length: got loss 'top:2', which is of questions"));
  EXPECT_THAT(error_of([&] { (void)calibrate(split_for_calibration(draw_questions(30, 1), 1), plan_of()); }).what(),
              HasSubstr("questions without a loss, and the certify part has 18"));
  for (size_t row = 0; row < rows.rows; ++row) rows.cluster[row] = row;
  EXPECT_THAT(error_of([&] { (void)calibrate(split_for_calibration(rows, 1), plan_of()); }).what(),
              HasSubstr("no two of one question"));
  rows.cluster.clear();
  EXPECT_THAT(error_of([&] { (void)calibrate(split_for_calibration(rows, 1), plan_of()); }).hint(),
              HasSubstr("--cluster COLUMN"));
}

}  // namespace
}  // namespace exeunt
