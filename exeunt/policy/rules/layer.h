// SPDX-License-Identifier: Apache-2.0
// layer:k: every text exits after layer k. Static truncation, and the score of a single exit.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct LayerRule : RuleDefaults {
  static constexpr std::string_view kName = "layer";
  static constexpr ParamInfo kList[] = {{.name = "layer", .kind = ParamKind::whole, .low = 1, .high = 1000}};
  static constexpr std::span<const ParamInfo> kParams = kList;

  static int sole_layer(const float* params) noexcept { return static_cast<int>(params[0]); }
  static std::string_view misfit(const float*, const ModelTraits&) noexcept { return {}; }
  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs&, const Evidence&, float*) noexcept { return false; }
};

}  // namespace exeunt
