// SPDX-License-Identifier: Apache-2.0
// lte:t: leave when the learning-to-exit head's "should continue" falls below t.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct LteRule : BelowDefaults {
  static constexpr std::string_view kName = "lte";
  static constexpr Measure kMeasure = {&Evidence::lte};
  static constexpr bool kUsual = true;

  static std::string_view misfit(const float*, const ModelTraits& traits) noexcept {
    return traits.lte ? std::string_view{} : "the model has no learning-to-exit head";
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.lte < args.exit_value;
  }
};

}  // namespace exeunt
