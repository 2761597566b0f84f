// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/loss.h"

#include <vector>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

const OutputSpec kClasses{.labels = {"no", "yes"}};
const OutputSpec kNumbers{.problem = Problem::regression};

OutputSpec tags(std::vector<float> logit_thresholds = {}) {
  return {.problem = Problem::multi_label, .labels = {"calm", "rude"}, .logit_thresholds = std::move(logit_thresholds)};
}

double loss_between(const RiskLoss& loss, const OutputSpec& outputs, const std::vector<float>& given,
                    const std::vector<float>& reference, double width = 0) {
  return LossOf(loss, outputs, width)({.given = given, .reference = reference});
}

TEST(Loss, ComparesLabelsSetsAndValues) {
  const std::vector<float> one{1, 2}, two{0, 3}, three{-1, 2};
  EXPECT_EQ(loss_between(RiskLoss::disagreement, kClasses, one, two), 0);
  EXPECT_EQ(loss_between(RiskLoss::disagreement, kClasses, one, {2, 1}), 1);
  EXPECT_EQ(loss_between(RiskLoss::disagreement, tags(), one, three), 1) << "one of the labels differs";
  EXPECT_EQ(loss_between(RiskLoss::disagreement, tags({5, 0}), one, three), 0) << "by its threshold, it does not";
  EXPECT_EQ(loss_between(RiskLoss::abs_diff, kNumbers, {1}, {2}, 4), 0.25);
  EXPECT_EQ(loss_between(RiskLoss::abs_diff, kNumbers, {1}, {9}, 4), 1);
}

TEST(Loss, DropCountsLostAndGainedAnswers) {
  const LossOf drop(RiskLoss::zero_one_drop, kClasses, 0);
  EXPECT_EQ(drop({.given = {}, .reference = {}, .given_right = false, .reference_right = true}), 1);
  EXPECT_EQ(drop({.given = {}, .reference = {}, .given_right = true, .reference_right = false}), -1);
  EXPECT_EQ(drop({.given = {}, .reference = {}, .given_right = false, .reference_right = false}), 0);
}

TEST(Loss, NamesWhatSuitsTheModel) {
  EXPECT_EQ(error_of([] { LossOf(RiskLoss::disagreement, kNumbers, 1); }).hint(), "use abs_diff");
  EXPECT_EQ(error_of([] { LossOf(RiskLoss::abs_diff, kClasses, 1); }).hint(), "use disagreement or zero_one_drop");
}

TEST(Loss, MissedLabelCountsRowsThatHaveItAtFullDepth) {
  RiskLoss missed = loss_named("missed:yes");
  const std::vector<float> no{2, 1}, yes{1, 2}, sure{0, 3};
  EXPECT_EQ(loss_between(missed, kClasses, no, yes), 1);
  EXPECT_EQ(loss_between(missed, kClasses, sure, yes), 0);
  EXPECT_EQ(loss_between(missed, kClasses, yes, no), 1) << "the other side, of which something may be promised, too";
  const LossOf of(missed, kClasses, 0);
  EXPECT_TRUE(of.counts(yes));
  EXPECT_FALSE(of.counts(no)) << "full depth does not give the label";
  const OutputSpec several = tags({0, 3});
  EXPECT_EQ(loss_between(loss_named("missed:rude"), several, {5, 4}, {-5, 4}), 0) << "other labels do not matter";
  EXPECT_EQ(loss_between(loss_named("missed:rude"), several, {5, 2}, {5, 4}), 1) << "by its threshold";
}

TEST(Loss, DecisionLossCountsChangedSidesAlone) {
  const RiskLoss value = loss_named("decision:>=3.5");
  EXPECT_EQ(loss_between(value, kNumbers, {3.4F}, {0}), 0);
  EXPECT_EQ(loss_between(value, kNumbers, {3.5F}, {3.4F}), 1) << "the threshold itself is yes";
  const RiskLoss score = loss_named("decision:yes>=0.8");  // a margin of ln 4 = 1.386
  EXPECT_EQ(loss_between(score, kClasses, {0, 1.3F}, {0, 1.4F}), 1) << "the same label, another decision";
  EXPECT_EQ(loss_between(score, kClasses, {0, 1.3F}, {2, 0}), 0) << "another label, the same decision";
  const OutputSpec one{.problem = Problem::multi_label, .labels = {"spam"}};
  EXPECT_EQ(loss_between(loss_named("decision:>=0.8"), one, {1.3F}, {1.4F}), 1) << "a model's only output";
  EXPECT_EQ(loss_between(loss_named("decision:rude>=0.8"), tags({0, 5}), {9, 1.3F}, {9, 1.4F}), 1)
      << "a score does not depend on the label's threshold";
}

TEST(Loss, DropAndTopLossesNeedMoreThanOneText) {
  EXPECT_TRUE(of_one_text(RiskLoss::disagreement));
  EXPECT_FALSE(of_one_text(RiskLoss::zero_one_drop));
  EXPECT_FALSE(of_one_text(loss_named("top:3")));
  EXPECT_NE(loss_named("top:3"), loss_named("top:4"));
}

TEST(Loss, HasANameThatIsRead) {
  for (const char* name : {"disagreement", "zero_one_drop", "abs_diff", "missed:a:b", "missed:a,b,max_false=0.02",
                           "decision:>=3.5", "decision:spam>=0.5", "decision:a>=b>=0.5", "top:1", "top:30"})
    EXPECT_EQ(name_of(loss_named(name)), name);
  EXPECT_EQ(loss_named("decision:a>=b>=0.5").label, "a>=b");
  EXPECT_EQ(loss_named("missed:a,b,max_false=0.02").label, "a,b");
  EXPECT_NE(loss_named("missed:a"), loss_named("missed:b"));
  for (const char* name :
       {"missed", "disagreement:yes", "decision:3", "decision:>=x", "decision:>=inf", "missed:a,max_false=7",
        "missed:a,max_false=0", "top", "top:", "top:0", "top:-1", "top:2.5", "top:99999999999"})
    EXPECT_EQ(error_of([&] { (void)loss_named(name); }).code(), Code::usage) << name;
  EXPECT_EQ(error_of([] { (void)loss_named("disagrement"); }).hint(), "did you mean 'disagreement'?");
}

TEST(Loss, RejectsLabelOrScoreThatTheModelLacks) {
  const auto refusal = [](const char* name, const OutputSpec& outputs) {
    return error_of([&] { LossOf(loss_named(name), outputs, 0); });
  };
  EXPECT_EQ(std::string(refusal("missed:yse", kClasses).what()), "loss 'missed:yse': the model has no label 'yse'");
  EXPECT_EQ(refusal("missed:yse", kClasses).hint(), "did you mean 'yes'?");
  EXPECT_EQ(refusal("missed:yes", kNumbers).code(), Code::usage);
  EXPECT_EQ(refusal("decision:>=0.5", kClasses).code(), Code::usage) << "whose score?";
  EXPECT_EQ(refusal("decision:yes>=0.5", kNumbers).code(), Code::usage);
  EXPECT_EQ(refusal("top:3", kClasses).code(), Code::usage) << "labels have no order";
  for (const char* out : {"decision:yes>=0", "decision:yes>=1", "decision:yes>=3"})
    EXPECT_EQ(refusal(out, kClasses).code(), Code::usage) << out;
}

}  // namespace
}  // namespace exeunt
