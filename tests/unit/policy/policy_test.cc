// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy.h"

#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/walk.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

const ExitSites kBinary{{3, 6, 9, 12}, 2};
const ExitSites kNumber{{3, 6, 9, 12}, 1, Problem::regression};

Error misfit(std::string_view text, const ExitSites& sites) {
  return error_of([&] { (void)bind(parse_policy(text), sites); });
}

TEST(Policy, EvaluatesAllExitsByDefault) {
  const Policy policy = bind(parse_policy("entropy:0.3"), kBinary);
  ASSERT_EQ(policy.count, 4);
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(policy.site[n], n);
    EXPECT_EQ(policy.nth[n], n);
    EXPECT_EQ(policy.exit_value[n], 0.3F);
    EXPECT_EQ(policy.temperature[n], 1);
  }
}

TEST(Policy, SubsetOfExitsKeepsItsTemperaturesAndThresholds) {
  PolicySpec spec = parse_policy("entropy:0.1,0.2");
  spec.exits = {6, 12};
  spec.temperature = {1, 2, 3, 4};
  const Policy policy = bind(spec, kBinary);
  ASSERT_EQ(policy.count, 2);
  EXPECT_EQ(policy.site[0], 1);
  EXPECT_EQ(policy.temperature[0], 2);
  EXPECT_EQ(policy.temperature[1], 4);
  EXPECT_EQ(policy.exit_value[1], 0.2F);
  EXPECT_EQ(policy.nth[0], -1);
  EXPECT_EQ(policy.nth[1], 0);
}

TEST(Policy, PatienceAndWindowsCountEvaluatedExits) {
  const Logits logits = labels({1, 0, 1, 0, 1, 0});
  PolicySpec spec = parse_policy("patience:1");
  spec.exits = {2, 4, 6};
  EXPECT_EQ(walk(bind(spec, sites_for(logits)), logits), 4) << "layers 2 and 4 agree";
  spec.rule = rule_of<WindowRule>;
  spec.params = parse_policy("window:0,2,bias_1").params;
  EXPECT_EQ(walk(bind(spec, sites_for(logits)), logits), 4);
}

TEST(Policy, NeverEarlyNamesRulesThatWaitTooLong) {
  const auto waits = [](const char* text, size_t exits) { return never_early(parse_policy(text), exits); };
  EXPECT_EQ(waits("patience:99", 3),
            "policy patience:99: no text can leave early: that takes more than 100 exits, and 3 are evaluated");
  for (const char* text : {"patience:3", "pcee:0.1,4", "divergence:0.1,4", "window:0,4,bias_1"}) {
    EXPECT_THAT(waits(text, 4), HasSubstr("more than 4 exits, and 4 are")) << text;
    EXPECT_EQ(waits(text, 5), "") << text;
  }
  for (const char* text : {"full", "layer:12", "patience:0", "entropy:0.1", "window:0.1,40,bias_1"})
    EXPECT_EQ(waits(text, 3), "") << text;
  PolicySpec few = parse_policy("patience:1");
  few.exits = {6, 12};
  EXPECT_THAT(never_early(few, 4), HasSubstr("more than 2 exits, and 2 are"));
}

TEST(Policy, FixedLayerNeedsNoOtherExit) {
  const Policy policy = bind(parse_policy("layer:6"), kBinary);
  ASSERT_EQ(policy.count, 1);
  EXPECT_EQ(policy.site[0], 1);
  EXPECT_EQ(bind(parse_policy("full"), kBinary).site[0], 3);
  EXPECT_EQ(bind(parse_policy("patience:0"), kBinary).site[0], 3);
}

TEST(Policy, RulesOnProbabilitiesDoNotFitARegression) {
  for (const char* text : {"entropy:0.3", "nentropy:0.3", "confidence:0.9", "margin:0.5", "window:0.1,3,bias_1",
                           "pcee:0.1,2", "divergence:0.1,2", "vote:2"}) {
    const Error error = misfit(text, kNumber);
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_THAT(error.what(), HasSubstr("does not fit this model: it reads class probabilities")) << text;
    EXPECT_THAT(error.hint(), HasSubstr("one of full, layer, patience")) << text;
  }
  EXPECT_NO_THROW((void)bind(parse_policy("full"), kNumber));
  EXPECT_NO_THROW((void)bind(parse_policy("layer:3"), kNumber));
  EXPECT_NO_THROW((void)bind(parse_policy("patience:3,tol=0.1"), kNumber));
}

TEST(Policy, PatienceTakesToleranceForRegressionOnly) {
  EXPECT_THAT(misfit("patience:3", kNumber).what(), HasSubstr("add tol="));
  EXPECT_THAT(misfit("patience:3,tol=0.1", kBinary).what(), HasSubstr("the model predicts classes"));
}

TEST(Policy, LteNeedsItsHead) {
  EXPECT_THAT(misfit("lte:0.2", kBinary).what(), HasSubstr("no learning-to-exit head"));
  ExitSites with = kBinary;
  with.lte = true;
  EXPECT_NO_THROW((void)bind(parse_policy("lte:0.2"), with));
}

TEST(Policy, NamesMissingExits) {
  const Error error = misfit("layer:5", kBinary);
  EXPECT_THAT(error.what(), HasSubstr("got an exit after layer 5, and the model has none there"));
  EXPECT_EQ(error.hint(), "its exits: 3, 6, 9, 12");
  PolicySpec spec = parse_policy("entropy:0.3");
  spec.exits = {3, 7, 12};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("after layer 7"));
  spec.exits = {3, 6};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("want the last one (12)"));
  spec.exits = {6, 3, 12};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("in increasing order"));
  spec.exits = {6, 6, 12};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("in increasing order"));
}

TEST(Policy, ListsMustHaveOneValuePerExit) {
  EXPECT_THAT(misfit("entropy:0.1,0.2,0.3", kBinary).what(), HasSubstr("got 3 per-exit values, want 4"));
  EXPECT_THAT(misfit("vote:2,1,1", kBinary).what(), HasSubstr("got 2 per-exit values, want 4"));
  PolicySpec spec = parse_policy("entropy:0.3");
  spec.temperature = {1, 1};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("got 2 temperatures, want 4"));
  for (const float bad : {0.0F, -1.0F, std::nanf(""), INFINITY}) {
    spec.temperature = {1, bad, 1, 1};
    EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("a finite number above 0"));
  }
}

TEST(Policy, RejectsInvalidSpecMadeByHand) {
  PolicySpec spec = parse_policy("confidence:0.9");
  for (const float bad : {1.5F, -0.1F, std::nanf(""), INFINITY}) {
    spec.params[0] = bad;
    EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("want a number from 0 to 1"));
  }
  spec = parse_policy("patience:3");
  spec.params[0] = 2.5F;
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("want a whole number"));
  spec = parse_policy("pcee:0.1,3");
  spec.per_exit = {1, 1, 1, 1};
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("takes no per-exit values"));
  spec = parse_policy("window:0.1,3,bias_1");
  spec.params[2] = 3;
  EXPECT_EQ(error_of([&] { (void)bind(spec, kBinary); }).code(), Code::usage);
  spec.params[2] = WindowRule::bias_3;
  EXPECT_THAT(error_of([&] { (void)bind(spec, kBinary); }).what(), HasSubstr("bias_3 needs range="));
}

TEST(Policy, StateIsAsLargeAsTheRuleNeeds) {
  EXPECT_EQ(bind(parse_policy("entropy:0.3"), kBinary).state_floats, 0);
  EXPECT_EQ(bind(parse_policy("window:0.1,3,bias_1"), kBinary).state_floats, 5);
  EXPECT_EQ(bind(parse_policy("window:0.1,1000,bias_1"), kBinary).state_floats, 6);
  const Policy divergence = bind(parse_policy("divergence:0.1,2"), kBinary);
  EXPECT_EQ(divergence.memory, 1);
  EXPECT_EQ(divergence.state_floats, 4);
}

TEST(Policy, StepNamesStopReason) {
  Evidence sure, unsure;
  sure.entropy = 0.1F;
  unsure.entropy = 0.6F;
  const Policy policy = bind(parse_policy("entropy:0.3"), kBinary);
  EXPECT_EQ(step(policy, 0, unsure, nullptr, nullptr), Step::stay);
  EXPECT_EQ(step(policy, 0, sure, nullptr, nullptr), Step::leave);
  EXPECT_EQ(step(policy, 3, unsure, nullptr, nullptr), Step::last);
  EXPECT_EQ(step(policy, 3, sure, nullptr, nullptr), Step::leave);
}

TEST(Policy, EvaluatesLastRampAtLastExitOnly) {
  Evidence sure, unsure;
  sure.entropy = 0.1F;
  unsure.entropy = 0.6F;
  ExitSites sites = kBinary;
  sites.ramp = true;
  const Policy policy = bind(parse_policy("entropy:0.3"), sites);
  EXPECT_FALSE(asks_ramp(policy, 2));
  EXPECT_TRUE(asks_ramp(policy, 3));
  EXPECT_EQ(step(policy, 2, unsure, &sure, nullptr), Step::stay);
  EXPECT_EQ(step(policy, 3, unsure, &sure, nullptr), Step::leave_by_ramp);
  EXPECT_EQ(step(policy, 3, sure, &unsure, nullptr), Step::last) << "the final head's own evidence is not asked";
  for (const char* fixed : {"full", "layer:12", "patience:0"})
    EXPECT_FALSE(asks_ramp(bind(parse_policy(fixed), sites), 0)) << fixed << ": nothing to decide";
}

TEST(Policy, IsPlainDataForADevice) {
  EXPECT_TRUE(std::is_trivially_copyable_v<Policy>);
  EXPECT_LT(sizeof(Policy), 4096u) << "CUDA kernels take parameters of up to 4 KiB";
}

TEST(Policy, ListsEveryRuleOnce) {
  for (size_t i = 0; i < kRules.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(kRules[i].name, kRules[j].name);
  EXPECT_EQ(info_of(rule_of<VoteRule>).name, "vote");
  EXPECT_EQ(info_of(rule_of<FullRule>).name, "full");
  EXPECT_EQ(info_of(rule_of<LteRule>).name, "lte");
}

// Replay and the GPU reserve max_rule_state() floats for a text.
TEST(Policy, RefusesARuleWithTooMuchState) {
  RuleInfo greedy = info_of(rule_of<FullRule>);
  greedy.state_floats = [](const float*, int exits) { return max_rule_state(exits); };
  EXPECT_EQ(rule_state(greedy, nullptr, 12), max_rule_state(12));
  greedy.state_floats = [](const float*, int exits) { return max_rule_state(exits) + 1; };
  EXPECT_THROW((void)rule_state(greedy, nullptr, 12), std::logic_error);
}

}  // namespace
}  // namespace exeunt
