// SPDX-License-Identifier: Apache-2.0
// vote:a[,w1,...,wE]: exits that agree in a row add up their confidences, each times its weight; leave when the sum
// exceeds a (BEEM's idea in a form of ours).
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct VoteRule : RuleDefaults {
  static constexpr std::string_view kName = "vote";
  static constexpr Measure kMeasure = {&Evidence::confidence};
  static constexpr ParamInfo kList[] = {{.name = "sum", .low = 0, .high = 1e6F}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::weight;
  static constexpr bool kUsual = true;

  static int state_floats(const float*, int) noexcept { return 2; }  // sum, 1 + label of the run

  static std::vector<Params> candidates(const Scope& scope) {
    std::vector<Params> out;
    const int steps = 12 * scope.exits;  // a sum of confidences is between 1 / C and the number of exits
    for (int i = 1; i <= steps; ++i) out.push_back({static_cast<float>(round_significant(i / 12.0))});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    const float label = static_cast<float>(e.label + 1);
    state[0] = (state[1] == label ? state[0] : 0) + args.exit_value * e.confidence;
    state[1] = label;
    return state[0] > args.params[0];
  }
};

}  // namespace exeunt
