// SPDX-License-Identifier: Apache-2.0
// pcee:S,t: leave when t exits in a row were confident, H(p) / ln C < S; their labels need not agree (PCEE-BERT).
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct PceeRule : RuleDefaults {
  static constexpr std::string_view kName = "pcee";
  static constexpr Measure kMeasure = {&Evidence::nentropy};
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1},
                                        {.name = "patience", .kind = ParamKind::whole, .low = 1, .high = kMaxPatience}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr bool kUsual = true;

  static int state_floats(const float*, int) noexcept { return 1; }  // run

  static std::vector<Params> candidates(const Scope& scope) { return thresholds_with_patience(1, scope.exits); }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    state[0] = e.nentropy < args.params[0] ? state[0] + 1 : 0;
    return state[0] == args.params[1];
  }
};

}  // namespace exeunt
