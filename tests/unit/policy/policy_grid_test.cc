// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> settings(std::string_view text) {
  std::vector<std::string> texts;
  for (const PolicySpec& spec : parse_sweep(text)) texts.push_back(str(spec));
  return texts;
}

Error sweep_error(std::string_view text) {
  return error_of([&] { (void)parse_sweep(text); });
}

TEST(Sweep, RangeHasBothItsEnds) {
  EXPECT_THAT(settings("entropy:0..0.7/0.05"),
              ElementsAre("entropy:0", "entropy:0.05", "entropy:0.1", "entropy:0.15", "entropy:0.2", "entropy:0.25",
                          "entropy:0.3", "entropy:0.35", "entropy:0.4", "entropy:0.45", "entropy:0.5", "entropy:0.55",
                          "entropy:0.6", "entropy:0.65", "entropy:0.7"));
  EXPECT_EQ(settings("entropy:0..1/0.001").size(), 1001u);
  EXPECT_THAT(settings("entropy:0.1..0.25/0.1"), ElementsAre("entropy:0.1", "entropy:0.2"));
  EXPECT_THAT(settings("entropy:0.5..0.5/1"), ElementsAre("entropy:0.5"));
}

TEST(Sweep, WholeNumbersStepByOne) {
  EXPECT_THAT(settings("patience:2..5"), ElementsAre("patience:2", "patience:3", "patience:4", "patience:5"));
  EXPECT_THAT(settings("patience:0..6/3"), ElementsAre("patience:0", "patience:3", "patience:6"));
}

TEST(Sweep, ListsAndRangesCombine) {
  EXPECT_THAT(settings("patience:3|4|6"), ElementsAre("patience:3", "patience:4", "patience:6"));
  EXPECT_THAT(settings("entropy:0.01|0.1..0.3/0.1"),
              ElementsAre("entropy:0.01", "entropy:0.1", "entropy:0.2", "entropy:0.3"));
  EXPECT_THAT(settings("window:0.1|0.2,6..7,bias_1|bias_2"),
              ElementsAre("window:0.1,6,bias_1", "window:0.1,6,bias_2", "window:0.1,7,bias_1", "window:0.1,7,bias_2",
                          "window:0.2,6,bias_1", "window:0.2,6,bias_2", "window:0.2,7,bias_1", "window:0.2,7,bias_2"));
  EXPECT_THAT(settings("patience:2|3,tol=0.1|0.2"),
              ElementsAre("patience:2,tol=0.1", "patience:2,tol=0.2", "patience:3,tol=0.1", "patience:3,tol=0.2"));
}

TEST(Sweep, SinglePolicyIsSweepOfOne) {
  EXPECT_THAT(settings("full"), ElementsAre("full"));
  EXPECT_THAT(settings("entropy:0.3"), ElementsAre("entropy:0.3"));
}

TEST(Sweep, BrokenRangesSayHowTheyAreWritten) {
  for (const char* text : {"entropy:0..0.7", "entropy:0.../0.1", "entropy:..", "entropy:1..0/0.1", "entropy:0..1/0",
                           "entropy:0..1/-1", "entropy:0..1/nan", "entropy:0..x/1", "entropy:0..1/1/1"})
    EXPECT_EQ(sweep_error(text).hint(), "ranges are written low..high/step, as in 0..0.7/0.05") << text;
  EXPECT_THAT(sweep_error("entropy:0.1||0.2").what(), HasSubstr("got ''"));
}

TEST(Sweep, RejectsValuesOutOfRange) {
  EXPECT_THAT(sweep_error("confidence:0.8..1.2/0.1").what(), HasSubstr("policy 'confidence:1.1': threshold"));
}

TEST(Sweep, RejectsTooManySettings) {
  EXPECT_THAT(sweep_error("entropy:0..16/1e-9").what(), HasSubstr("more than 10000 values"));
  EXPECT_THAT(sweep_error("entropy:0..1/0.001,0..1/0.001").what(), HasSubstr("more than 10000 settings"));
  EXPECT_EQ(parse_sweep("window:0..0.99/0.01,1..100,bias_1").size(), 10000U);
  EXPECT_THAT(sweep_error("window:0..0.99/0.01,1..101,bias_1").what(), HasSubstr("got more than 10000 settings"));
  std::string weights;
  for (int i = 0; i < 210; ++i) weights += ",1";
  EXPECT_THAT(sweep_error("vote:0..0.9999/0.0001" + weights).what(),
              HasSubstr("10000 settings of this length are too many"));
  EXPECT_EQ(parse_sweep("entropy:" + std::string(4088, '0')).size(), 1U);
  EXPECT_EQ(sweep_error("entropy:" + std::string(4089, '0')).what(),
            "policy 'entropy:" + std::string(56, '0') + "': got 4097 bytes, want at most 4096");
  EXPECT_EQ(sweep_error("entropy:" + std::string(63, '0') + "..x").what(),
            "policy 'entropy:" + std::string(56, '0') + "': '" + std::string(63, '0') + ".' is not a range");
}

}  // namespace
}  // namespace exeunt
