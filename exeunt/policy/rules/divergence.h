// SPDX-License-Identifier: Apache-2.0
// divergence:r,t: leave when t exits in a row moved less than r, in Jensen-Shannon divergence, from the one before
// (patience over distributions instead of labels).
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct DivergenceRule : RuleDefaults {
  static constexpr std::string_view kName = "divergence";
  static constexpr Measure kMeasure = {&Evidence::shift};
  static constexpr ParamInfo kList[] = {
      {.name = "threshold", .low = 0, .high = 1},  // the divergence itself never exceeds ln 2
      {.name = "patience", .kind = ParamKind::whole, .low = 1, .high = kMaxPatience}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr bool kReadsShift = true;

  static int state_floats(const float*, int) noexcept { return 1; }  // run

  static std::vector<Params> candidates(const Scope& scope) { return thresholds_with_patience(0.7, scope.exits); }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    state[0] = e.shift < args.params[0] ? state[0] + 1 : 0;
    return state[0] == args.params[1];
  }
};

}  // namespace exeunt
