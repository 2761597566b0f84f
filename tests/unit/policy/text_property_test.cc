// SPDX-License-Identifier: Apache-2.0
// Text and policy go back and forth without loss, for any policy; and any text is either read or refused.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/policy/policy_text.h"
#include "tests/unit/policy/pick.h"

namespace exeunt {
namespace {

float arbitrary_value(const ParamInfo& param) {
  if (param.kind == ParamKind::word) return static_cast<float>(pick<size_t>(0, param.words.size()));
  if (param.kind == ParamKind::whole)
    return static_cast<float>(pick(static_cast<int>(param.low), static_cast<int>(param.high) + 1));
  // Any fraction of the range, down to the last bit of a float.
  const float share = static_cast<float>(pick(0, (1 << 24) + 1)) / static_cast<float>(1 << 24);
  return param.low + (param.high - param.low) * share;
}

PolicySpec arbitrary_spec() {
  PolicySpec spec;
  spec.rule = Rule{static_cast<uint8_t>(pick<size_t>(0, kRules.size()))};
  const RuleInfo& info = info_of(spec.rule);
  for (size_t i = 0; i < info.params.size(); ++i) {
    const bool absent = info.params[i].keyed && *rc::gen::arbitrary<bool>();
    spec.params[i] = absent ? info.params[i].absent : arbitrary_value(info.params[i]);
  }
  if (info.per_exit != PerExit::none && *rc::gen::arbitrary<bool>()) {
    const ParamInfo& each = info.per_exit == PerExit::threshold ? info.params[0] : kWeightParam;
    for (int n = pick(2, 25); n > 0; --n) spec.per_exit.push_back(arbitrary_value(each));
    if (info.per_exit == PerExit::threshold) spec.params[0] = 0;
  }
  RC_PRE(info.conflict(spec.params.data()).empty());
  return spec;
}

RC_GTEST_PROP(PolicyText, AnyPolicyRoundTripsThroughText, ()) {
  const PolicySpec spec = arbitrary_spec();
  RC_ASSERT(parse_policy(str(spec)) == spec);
  RC_ASSERT(str(parse_policy(str(spec))) == str(spec));
  RC_ASSERT(parse_sweep(str(spec)) == std::vector<PolicySpec>{spec});
}

RC_GTEST_PROP(PolicyText, AnyTextIsReadOrRefused, ()) {
  // Pieces that look like policies, in any order, so that the parser is reached far inside.
  const std::vector<std::string> pieces{"entropy", "window", "patience", "vote",  "full", ":", ",",
                                        "|",       "..",     "/",        "=",     "0.1",  "3", "-",
                                        "1e",      "tol",    "bias_3",   "range", "stat", "é", "\0"};
  std::string text;
  for (int n = pick(0, 12); n > 0; --n) text += *rc::gen::elementOf(pieces);
  try {
    (void)parse_sweep(text);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == Code::usage);
  }
}

}  // namespace
}  // namespace exeunt
