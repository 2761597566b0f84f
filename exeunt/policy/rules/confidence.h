// SPDX-License-Identifier: Apache-2.0
// confidence:t: leave when the largest probability exceeds t (Shallow-Deep networks).
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct ConfidenceRule : AboveDefaults {
  static constexpr std::string_view kName = "confidence";
  static constexpr Measure kMeasure = {&Evidence::confidence};

  // Of two classes, the more probable one's share falls as entropy rises.
  static bool repeats_another(int classes) noexcept { return classes == 2; }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.confidence > args.exit_value;
  }
};

}  // namespace exeunt
