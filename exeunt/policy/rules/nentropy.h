// SPDX-License-Identifier: Apache-2.0
// nentropy:S: leave when H(p) / ln C < S (the first stage of window, too).
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct NentropyRule : BelowDefaults {
  static constexpr std::string_view kName = "nentropy";
  static constexpr Measure kMeasure = {&Evidence::nentropy};

  static bool repeats_another(int) noexcept { return true; }  // entropy, by a constant factor

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.nentropy < args.exit_value;
  }
};

}  // namespace exeunt
