// SPDX-License-Identifier: Apache-2.0
// lte:t: leave when the learning-to-exit head's "should continue" falls below t (BERxiT).
#pragma once

#include "exeunt/exits/rule.h"

namespace exeunt {

struct LteRule : RuleDefaults {
  static constexpr std::string_view kName = "lte";
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::threshold;
  static constexpr int kBolder = 1;

  static std::string_view misfit(const float*, const Ground& ground) noexcept {
    return ground.lte ? std::string_view{} : "the model has no learning-to-exit head";
  }
  static std::vector<Params> candidates(const Scope&) {
    std::vector<Params> out;
    for (const double value : fine_near_zero(1, 200)) out.push_back({static_cast<float>(value)});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.lte < args.own;
  }
};

}  // namespace exeunt
