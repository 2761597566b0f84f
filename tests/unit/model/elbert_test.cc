// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "exeunt/model/config.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string refusal(const ConfigRule& rule, int outputs = 2) {
  const Error error = error_of([&] { (void)config_policy(rule, outputs); });
  EXPECT_EQ(error.code(), Code::usage);
  return error.what();
}

TEST(ConfigRule, IsAWindow) {
  EXPECT_EQ(config_policy({}, 2), "window:0.1,8,bias_1");
  ConfigRule rule{.thres_name = "bias_3", .exit_thres = 0.4, .cnt_thres = 6, .margin = 0.05};
  EXPECT_THAT(refusal(rule), HasSubstr("bias_3 needs range_tmp"));
  rule.range_tmp = 0.2;
  EXPECT_EQ(config_policy(rule, 2), "window:0.4,6,bias_3,margin=0.05,range=0.2");
}

TEST(ConfigRule, HasOtherNamesToo) {
  EXPECT_EQ(config_policy({.thres_name = "entropy", .exit_thres = 0.3}, 3), "nentropy:0.3");
  EXPECT_EQ(config_policy({.thres_name = "logits", .exit_thres = 0.9}, 2), "confidence:0.1");
  EXPECT_EQ(config_policy({.thres_name = "logits", .exit_thres = 0.1}, 3), "minprob:0.1");
  EXPECT_THAT(refusal({.thres_name = "bias_9"}), HasSubstr("thres_name: got 'bias_9'"));
  EXPECT_THAT(refusal({.cnt_thres = 0}), HasSubstr("cnt_thres: got 0"));
}

TEST(ConfigRule, NegativeThresholdNeverExits) {
  EXPECT_EQ(config_policy({.exit_thres = -1}, 2), "window:0,8,bias_1");
  EXPECT_EQ(config_policy({.thres_name = "entropy", .exit_thres = -0.5}, 2), "nentropy:0");
  EXPECT_EQ(config_policy({.thres_name = "logits", .exit_thres = -0.5}, 2), "confidence:1");
}

// What convert writes into policy.json must be readable: every rule is a policy or an error, whatever its values.
TEST(ConfigRule, ConvertsToPolicyOrError) {
  const double values[] = {-1e9, -1, -1e-9, 0, 1e-9, 0.3, 0.5, 0.50001, 1, 1.001, 2, 2.9, 1000, 1001, 1e300, NAN};
  int policies = 0;
  for (const char* name : {"bias_1", "bias_2", "bias_3", "entropy", "logits"}) {
    for (const double value : values) {
      for (const ConfigRule& rule : {ConfigRule{name, value, 8, 0, 0.1}, ConfigRule{name, 0.1, value, 0, 0.1},
                                     ConfigRule{name, 0.1, 8, value, 0.1}, ConfigRule{name, 0.1, 8, 0, value}}) {
        try {
          const std::string text = config_policy(rule, 2);
          EXPECT_NO_THROW((void)parse_policy(text)) << text;
          ++policies;
        } catch (const Error&) {
        }
      }
    }
  }
  EXPECT_GT(policies, 100);
}

}  // namespace
}  // namespace exeunt
