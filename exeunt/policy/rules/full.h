// SPDX-License-Identifier: Apache-2.0
// full: every text runs to the last exit.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct FullRule : RuleDefaults {
  static constexpr std::string_view kName = "full";
  static constexpr std::span<const ParamInfo> kParams = {};

  static int sole_layer(const float*) noexcept { return kLastExit; }
  static std::string_view misfit(const float*, const ModelTraits&) noexcept { return {}; }
  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs&, const Evidence&, float*) noexcept { return false; }
};

}  // namespace exeunt
