// SPDX-License-Identifier: Apache-2.0
// Calibration by losses about a label, a decision, or every exit.
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/risk.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

// A loss about a label is counted, tested and reported on the rows that full depth calls so.
TEST(CalibrateLosses, CertifiesALabelOnItsOwnRows) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("mnli-exeunt.held")), 42);
  const auto called = [](const ExitTrace& part) {
    int64_t rows = 0;
    for (size_t row = 0; row < part.rows; ++row) rows += best_label(part.info, part.full_depth(row)) == 0 ? 1 : 0;
    return rows;
  };
  CalibrationPlan plan{.max_drops = {0.05}, .loss = loss_named("missed:contradiction,max_false=0.03")};
  plan.families = {"entropy"};
  const Calibration both = calibrate(data, plan);
  const DropOutcome& outcome = both.outcomes[0];
  EXPECT_EQ(outcome.rows, called(data.certify));
  EXPECT_EQ(both.entry.certificate->rows, outcome.rows);
  EXPECT_EQ(outcome.report_rows, called(data.report));
  EXPECT_EQ(outcome.others->rows, static_cast<int64_t>(data.certify.rows) - outcome.rows);
  EXPECT_LT(outcome.certify_cost, 1);
  EXPECT_EQ(outcome.p_value,
            std::max(binomial_p_value(std::llround(outcome.losses), outcome.rows, 0.05),
                     binomial_p_value(std::llround(outcome.others->losses), outcome.others->rows, 0.03)))
      << "both halves at all of delta";
  int64_t at_exits = 0;
  for (const GroupOutcome& exit : outcome.exits) at_exits += exit.rows;
  EXPECT_EQ(at_exits, outcome.rows) << "what each exit lost, of the same rows";
  plan.loss->max_false.reset();
  EXPECT_LE(calibrate(data, plan).outcomes[0].certify_cost, outcome.certify_cost) << "one half promised";
  EXPECT_EQ(parse_policy_file(policy_file_text({data.fit.info.weights, "fp32", {both.entry}}), "p")
                .entries[0]
                .certificate->loss,
            loss_named("missed:contradiction,max_false=0.03"));
}

TEST(CalibrateLosses, SaysHowManyRowsOfALabelAreNeeded) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("rte-exeunt.dev")), 42);
  const std::string label = data.fit.info.labels[0];
  const Error few =
      error_of([&] { (void)calibrate(data, {.max_drops = {0.02}, .loss = loss_named("missed:" + label)}); });
  EXPECT_EQ(few.code(), Code::failure);
  EXPECT_THAT(few.what(), HasSubstr(fmt::format("takes 149 texts that full depth calls '{}' without a loss", label)));
  EXPECT_EQ(error_of([&] { (void)calibrate(data, {.max_drops = {0.02}, .loss = loss_named("missed:maybe")}); }).code(),
            Code::usage);
}

// Every exit that is taken lies below twice the budget by its own test, and scores of a decision are not scaled.
TEST(CalibrateLosses, TestsEveryExitAndDecisionsOnScoresAsTheyAre) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("mnli-exeunt.held")), 42);
  CalibrationPlan plan{.max_drops = {0.05}, .families = {"entropy"}, .exits = {8, 12}};
  plan.group.by = "exit";
  const DropOutcome by_exit = calibrate(data, plan).outcomes[0];
  EXPECT_LT(by_exit.certify_cost, 1);
  for (const GroupOutcome& exit : by_exit.exits) {
    if (exit.name == "12") continue;  // the reference itself
    EXPECT_LE(binomial_p_value(std::llround(exit.losses), exit.rows, 0.1), 0.05) << exit.name;
  }
  plan.group.by.clear();
  EXPECT_LE(calibrate(data, plan).outcomes[0].certify_cost, by_exit.certify_cost);
  plan.loss = loss_named("decision:entailment>=0.9");
  const PolicyEntry decided = calibrate(data, plan).entry;
  EXPECT_THAT(decided.score_temperature, testing::Each(1.0F));
  EXPECT_THAT(decided.decision_temperature, testing::Contains(testing::Ne(1.0F)));
}

}  // namespace
}  // namespace exeunt
