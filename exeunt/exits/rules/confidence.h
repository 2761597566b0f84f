// SPDX-License-Identifier: Apache-2.0
// confidence:t: leave when the largest probability exceeds t (Shallow-Deep networks).
#pragma once

#include "exeunt/exits/rule.h"

namespace exeunt {

struct ConfidenceRule : RuleDefaults {
  static constexpr std::string_view kName = "confidence";
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::threshold;
  static constexpr int kBolder = -1;

  static std::vector<Params> candidates(const Scope&) {
    std::vector<Params> out;
    for (const double value : fine_near_zero(1, 200)) out.push_back({below_one(value)});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.confidence > args.own;
  }
};

}  // namespace exeunt
