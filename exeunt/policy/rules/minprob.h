// SPDX-License-Identifier: Apache-2.0
// minprob:t: leave when the smallest probability is below t. Of two classes the same as
// confidence above 1 - t. With many classes it separates little, so calibration does not try it.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct MinprobRule : BelowDefaults {
  static constexpr std::string_view kName = "minprob";
  static constexpr Measure kMeasure = {&Evidence::least};

  static std::vector<Params> candidates(const Scope&) { return {}; }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.least < args.exit_value;
  }
};

}  // namespace exeunt
