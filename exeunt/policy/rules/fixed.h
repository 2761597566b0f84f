// SPDX-License-Identifier: Apache-2.0
// Rules by which all texts leave at one place, whatever the exits say.
//   full      at the last exit
//   layer:k   after layer k: static truncation, and the score of a single exit
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

struct LayerRule : FullRule {
  static constexpr std::string_view kName = "layer";
  static constexpr ParamInfo kList[] = {{.name = "layer", .kind = ParamKind::whole, .low = 0, .high = 1000}};
  static constexpr std::span<const ParamInfo> kParams = kList;

  static int sole_layer(const float* params) noexcept { return static_cast<int>(params[0]); }
};

}  // namespace exeunt
