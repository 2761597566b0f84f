// SPDX-License-Identifier: Apache-2.0
// gini:t: leave when the Gini impurity, 1 - sum p^2, is below t.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct GiniRule : BelowDefaults {
  static constexpr std::string_view kName = "gini";
  static constexpr Measure kMeasure = {&Evidence::impurity};

  // Of two classes, the impurity rises with entropy.
  static bool repeats_another(int classes) noexcept { return classes == 2; }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.impurity < args.exit_value;
  }
};

}  // namespace exeunt
