// SPDX-License-Identifier: Apache-2.0
// entropy:S: leave when H(p) < S.
#pragma once

#include <algorithm>

#include "exeunt/policy/rule.h"

namespace exeunt {

struct EntropyRule : BelowDefaults {
  static constexpr std::string_view kName = "entropy";
  static constexpr Measure kMeasure = {&Evidence::entropy};
  // H never exceeds ln C, so 16 is beyond nine million classes; thresholds above ln C simply always leave.
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 16}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr bool kUsual = true;

  static std::vector<Params> candidates(const Scope& scope) {
    return thresholds_up_to(std::min(16.0, scope.most_entropy()));
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.entropy < args.exit_value;
  }
};

}  // namespace exeunt
