// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_text.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

Error policy_error(std::string_view text) {
  return error_of([&] { (void)parse_policy(text); });
}

TEST(PolicyText, RoundTripsThroughText) {
  for (const char* text : {"full",
                           "layer:6",
                           "entropy:0.3",
                           "entropy:0.1,0.2,0.3",
                           "nentropy:0.1",
                           "confidence:0.9",
                           "margin:0.5",
                           "patience:6",
                           "patience:6,tol=0.1",
                           "patience:0",
                           "window:0.1,8,bias_1",
                           "window:0.1,8,bias_2,margin=0.05",
                           "window:0.1,8,bias_3,range=0.2",
                           "window:0.1,8,bias_3,margin=0.01,range=0.2,stat=class0",
                           "window:0,3,bias_1,stat=argmax-consistent",
                           "window:0,3,bias_1,stat=maxprob",
                           "pcee:0.1,3",
                           "divergence:0.01,2",
                           "vote:2.5",
                           "vote:2.5,1,0.5,2",
                           "lte:0.2",
                           "lte:0.3,0.3,0.2",
                           "entropy:1e-05",
                           "entropy:0.001",
                           "patience:3,tol=0.94"})
    EXPECT_EQ(str(parse_policy(text)), text);
}

TEST(PolicyText, WritesOneFormForWhatMeansTheSame) {
  EXPECT_EQ(str(parse_policy("entropy:0.30")), "entropy:0.3");
  EXPECT_EQ(str(parse_policy("entropy:.5")), "entropy:0.5");
  EXPECT_EQ(str(parse_policy("entropy:-0.0")), "entropy:0");
  EXPECT_EQ(str(parse_policy("window:0.1,8,bias_1,margin=0,stat=auto")), "window:0.1,8,bias_1");
  EXPECT_EQ(str(parse_policy("window:0.1,stat=class0,8,range=0.5,bias_3")),
            "window:0.1,8,bias_3,range=0.5,stat=class0");
  EXPECT_EQ(str(parse_policy("patience:6.0")), "patience:6");
}

TEST(PolicyText, MessagesNameAtMost64BytesOfWhatIsUnknown) {
  const std::string most(64, 'x'), longer = most + "x";
  EXPECT_THAT(policy_error(longer).what(), HasSubstr("unknown rule '" + most + "'"));
  EXPECT_THAT(policy_error("entropy:0.3," + longer + "=1").what(), HasSubstr("entropy takes no '" + most + "='"));
  EXPECT_THAT(policy_error("patience:3," + longer + "=1").what(), HasSubstr("unknown parameter '" + most + "='"));
  EXPECT_THAT(policy_error("window:0.1,8," + longer).what(), HasSubstr("got '" + most + "'"));
  EXPECT_EQ(policy_error("entropy=0.3").hint(), "did you mean 'entropy:0.3'?");
  EXPECT_THAT(policy_error("xyzzy=0.3").hint(), testing::StartsWith("known: full, "));
}

TEST(PolicyText, SuggestsNearestNames) {
  const Error rule = policy_error("entrpy:0.3");
  EXPECT_EQ(rule.code(), Code::usage);
  EXPECT_STREQ(rule.what(), "policy 'entrpy:0.3': unknown rule 'entrpy'");
  EXPECT_EQ(rule.hint(), "did you mean 'entropy'?");
  EXPECT_EQ(policy_error("window:0.1,8,bias_1,margn=0.1").hint(), "did you mean 'margin'?");
  EXPECT_EQ(policy_error("window:0.1,8,bias1").hint(), "did you mean 'bias_1'?");
  EXPECT_EQ(policy_error("window:0.1,8,bias_1,stat=class").hint(), "did you mean 'class0'?");
  EXPECT_THAT(policy_error("qqqqqqqq").hint(), HasSubstr("known: full, layer, entropy"));
  EXPECT_THAT(policy_error("").what(), HasSubstr("unknown rule ''"));
  EXPECT_THAT(policy_error("entropy:0.3,tol=1").what(), HasSubstr("entropy takes no 'tol='"));
}

TEST(PolicyText, ValuesOutOfRangeSayTheRange) {
  EXPECT_THAT(policy_error("entropy:-1").what(), HasSubstr("threshold: got '-1', want a number from 0 to 16"));
  EXPECT_THAT(policy_error("entropy:0.1,17").what(), HasSubstr("got '17'"));
  EXPECT_THAT(policy_error("confidence:1.1").what(), HasSubstr("want a number from 0 to 1"));
  EXPECT_THAT(policy_error("patience:2.5").what(),
              HasSubstr("patience: got '2.5', want a whole number from 0 to 1000"));
  EXPECT_THAT(policy_error("pcee:0.1,0").what(), HasSubstr("want a whole number from 1 to 1000"));
  EXPECT_THAT(policy_error("vote:1,-1").what(), HasSubstr("weight: got '-1'"));
  EXPECT_THAT(policy_error("layer:1001").what(), HasSubstr("want a whole number from 0 to 1000"));
  for (const char* text :
       {"entropy:nan", "entropy:inf", "entropy:1e999", "entropy:0.3x", "entropy: 0.3", "entropy:+0.3", "entropy:0x1",
        "entropy:", "entropy:0.1,", "entropy:,0.1", "patience:3,tol="})
    EXPECT_THAT(policy_error(text).what(), HasSubstr("want a number from 0")) << text;
}

TEST(PolicyText, TooFewOrTooManyValuesShowTheForm) {
  EXPECT_THAT(policy_error("entropy").what(), HasSubstr("got 0 values, want 1"));
  EXPECT_EQ(policy_error("entropy").hint(), "syntax: entropy:threshold or one per exit");
  EXPECT_EQ(policy_error("pcee:0.1").hint(), "syntax: pcee:threshold,patience");
  EXPECT_EQ(policy_error("patience").hint(), "syntax: patience:patience[,tol=…]");
  EXPECT_EQ(policy_error("vote").hint(), "syntax: vote:sum[,weight per exit]");
  EXPECT_THAT(policy_error("pcee:0.1,3,4").what(), HasSubstr("got 3 values, want 2"));
  EXPECT_THAT(policy_error("full:1").what(), HasSubstr("got 1 value, want 0"));
  EXPECT_THAT(policy_error("full:").what(), HasSubstr("got 1 value, want 0"));
  std::string many = "entropy:0", weights = "vote:1";
  for (int i = 1; i < kMaxExits; ++i) many += ",0";
  for (int i = 0; i < kMaxExits; ++i) weights += ",0";
  EXPECT_EQ(parse_policy(many).per_exit.size(), 128u);
  EXPECT_EQ(parse_policy(weights).per_exit.size(), 128u);
  EXPECT_THAT(policy_error(weights + ",0").what(), HasSubstr("got 129 per-exit values, want at most 128"));
  EXPECT_THAT(policy_error(many + ",0").what(), HasSubstr("got 129 per-exit values, want at most 128"));
}

TEST(PolicyText, ParametersMustAgree) {
  EXPECT_THAT(policy_error("window:0.1,8,bias_3").what(), HasSubstr("bias_3 needs range="));
  EXPECT_THAT(policy_error("window:0.1,8,bias_1,range=0.1").what(), HasSubstr("range= belongs to bias_3"));
  EXPECT_THAT(policy_error("patience:3,tol=1,tol=2").what(), HasSubstr("duplicate 'tol='"));
}

TEST(PolicyText, RejectsOverlongTextWithShortMessage) {
  const Error error = policy_error("entropy:" + std::string(1'000'000, '1'));
  EXPECT_THAT(error.what(), HasSubstr("want at most 4096"));
  EXPECT_LT(std::string(error.what()).size(), 400u);
}

TEST(PolicyText, NamesTheFileInErrors) {
  const Error error = error_of([] { (void)parse_policy("entropy:x", "policy.json: entries.fp32.policy"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("policy.json: entries.fp32.policy: policy 'entropy:x': threshold"));
}

}  // namespace
}  // namespace exeunt
