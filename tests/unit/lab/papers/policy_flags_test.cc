// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/policy_flags.h"

#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts(const std::vector<PolicySpec>& policies) {
  std::vector<std::string> out;
  for (const PolicySpec& policy : policies) out.push_back(str(policy));
  return out;
}

TEST(Legacy, PatienceListsAreSweeps) {
  EXPECT_THAT(texts(patience_list("3,4,5", {})), ElementsAre("patience:3", "patience:4", "patience:5"));
  EXPECT_THAT(texts(patience_list("0,6", 0.1F)), ElementsAre("patience:0", "patience:6,tol=0.1"));
  for (const char* text : {"", "3,", "3;4", "-1", "2.5", "x", "9999"})
    EXPECT_THAT(error_of([&] { (void)patience_list(text, {}); }).what(), HasSubstr("--patience")) << text;
}

TEST(Legacy, EntropyBelowZeroNeverLeaves) {
  EXPECT_THAT(texts(entropy_list("0.3,0.4,-1")), ElementsAre("entropy:0.3", "entropy:0.4", "full"));
  EXPECT_THAT(error_of([] { (void)entropy_list("0.3,,1"); }).what(), HasSubstr("--early_exit_entropy: got ''"));
  EXPECT_EQ(error_of([] { (void)entropy_list("99"); }).code(), Code::usage);
}

TEST(Legacy, LteThresholdsComeInGroups) {
  EXPECT_EQ(str(lte_groups("0.2")), "lte:0.2");
  EXPECT_EQ(str(lte_groups("0.3,4;0.2,2")), "lte:0.3,0.3,0.3,0.3,0.2,0.2");
  for (const char* text : {"0.3,4;0.2", "0.3,0", "0.3,4;", "0.3,x", "x", "0.3,100;0.2,100", "0.3,2000000000"})
    EXPECT_THAT(error_of([&] { (void)lte_groups(text); }).what(), HasSubstr("--lte_th")) << text;
  EXPECT_EQ(error_of([] { (void)lte_groups("1.5,2"); }).code(), Code::usage);
}

TEST(Legacy, ElbertsRuleComesBackFromItsPolicy) {
  for (const char* text : {"window:0.1,8,bias_1", "window:0.4,6,bias_3,margin=0.05,range=0.2", "window:0,2,bias_2",
                           "nentropy:0.3", "confidence:0.75", "confidence:0.9"}) {
    const auto rule = elbert_rule_of(parse_policy(text));
    ASSERT_TRUE(rule) << text;
    EXPECT_EQ(config_policy(*rule, 2), text);
  }
  EXPECT_EQ(elbert_rule_of(parse_policy("nentropy:0.3"))->thres_name, "entropy");
  EXPECT_EQ(elbert_rule_of(parse_policy("minprob:0.3"))->thres_name, "logits");
  EXPECT_EQ(elbert_rule_of(parse_policy("minprob:0.3"))->exit_thres, 0.3);
  for (const char* text : {"patience:3", "entropy:0.3", "nentropy:0.3,0.4", "full"})
    EXPECT_FALSE(elbert_rule_of(parse_policy(text))) << text;
}

TEST(ElbertKeys, AreSetOneByOne) {
  ConfigRule rule;
  set_elbert_key(rule, "exit_thres", "0.4");
  set_elbert_key(rule, "cnt_thres", "6.0");
  set_elbert_key(rule, "thres_name", "bias_3");
  set_elbert_key(rule, "margin", "0.05");
  set_elbert_key(rule, "range_tmp", "0.2");
  EXPECT_EQ(config_policy(rule, 2), "window:0.4,6,bias_3,margin=0.05,range=0.2");
}

TEST(ElbertKeys, AreNamedInErrors) {
  ConfigRule rule;
  EXPECT_EQ(error_of([&] { set_elbert_key(rule, "exit_tres", "1"); }).hint(), "did you mean 'exit_thres'?");
  EXPECT_THAT(error_of([&] { set_elbert_key(rule, "margin", "wide"); }).what(), HasSubstr("margin: got 'wide'"));
  set_elbert_key(rule, "thres_name", "bias1");
  EXPECT_EQ(error_of([&] { (void)config_policy(rule, 2); }).hint(), "did you mean 'bias_1'?");
}

}  // namespace
}  // namespace exeunt
