// SPDX-License-Identifier: Apache-2.0
// margin:t: leave when the largest probability leads the second by more than t.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct MarginRule : AboveDefaults {
  static constexpr std::string_view kName = "margin";
  static constexpr Measure kMeasure = {&Evidence::margin};
  static constexpr bool kUsual = true;

  // Of two classes, the lead falls as entropy rises.
  static bool repeats_another(int classes) noexcept { return classes == 2; }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.margin > args.exit_value;
  }
};

}  // namespace exeunt
