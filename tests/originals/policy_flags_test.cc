// SPDX-License-Identifier: Apache-2.0
#include "exeunt/originals/policy_flags.h"

#include "exeunt/exits/policy_text.h"
#include "tests/scratch.h"

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

TEST(Legacy, ElbertsKeysAreAWindow) {
  EXPECT_EQ(str(policy_of({}, 2)), "window:0.1,8,bias_1");
  ElbertExit exit;
  set_elbert_key(exit, "exit_thres", "0.4");
  set_elbert_key(exit, "cnt_thres", "6.0");
  set_elbert_key(exit, "thres_name", "bias_3");
  set_elbert_key(exit, "margin", "0.05");
  EXPECT_THAT(error_of([&] { (void)policy_of(exit, 2); }).what(), HasSubstr("bias_3 needs range="));
  set_elbert_key(exit, "range_tmp", "0.2");
  const PolicySpec policy = policy_of(exit, 2);
  EXPECT_EQ(str(policy), "window:0.4,6,bias_3,margin=0.05,range=0.2");
  const ElbertExit back = elbert_exit_of(policy);
  EXPECT_EQ(back.thres_name, "bias_3");
  EXPECT_EQ(back.exit_thres, 0.4);
  EXPECT_EQ(back.cnt_thres, 6);
  EXPECT_EQ(back.margin, 0.05);
  EXPECT_EQ(back.range_tmp, 0.2);
}

TEST(Legacy, ElbertsOtherRulesHaveNamesToo) {
  EXPECT_EQ(str(policy_of({.thres_name = "entropy", .exit_thres = 0.3, .range_tmp = {}}, 3)), "nentropy:0.3");
  EXPECT_EQ(str(policy_of({.thres_name = "logits", .exit_thres = 0.25, .range_tmp = {}}, 2)), "confidence:0.75");
  EXPECT_EQ(str(policy_of({.exit_thres = -1, .range_tmp = {}}, 2)), "window:0,8,bias_1") << "the first stage is off";
  EXPECT_THAT(error_of([] { (void)policy_of({.thres_name = "logits", .range_tmp = {}}, 3); }).what(),
              HasSubstr("for two classes"));
  EXPECT_EQ(elbert_exit_of(parse_policy("nentropy:0.3")).thres_name, "entropy");
  EXPECT_EQ(error_of([] { (void)elbert_exit_of(parse_policy("patience:3")); }).code(), Code::usage);
  ElbertExit exit;
  EXPECT_EQ(error_of([&] { set_elbert_key(exit, "exit_tres", "1"); }).hint(), "did you mean 'exit_thres'?");
  EXPECT_EQ(error_of([&] { set_elbert_key(exit, "thres_name", "bias1"); }).hint(), "did you mean 'bias_1'?");
  EXPECT_THAT(error_of([&] { set_elbert_key(exit, "margin", "wide"); }).what(), HasSubstr("margin: got 'wide'"));
}

}  // namespace
}  // namespace exeunt
