// SPDX-License-Identifier: Apache-2.0
// nentropy:S: leave when H(p) / ln C < S (FastBERT's speed, ELBERT's first stage).
#pragma once

#include "exeunt/exits/rule.h"

namespace exeunt {

struct NentropyRule : RuleDefaults {
  static constexpr std::string_view kName = "nentropy";
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::threshold;
  static constexpr int kBolder = 1;

  static std::vector<Params> candidates(const Scope&) {
    std::vector<Params> out;
    for (const double value : fine_near_zero(1, 200)) out.push_back({static_cast<float>(value)});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.nentropy < args.own;
  }
};

}  // namespace exeunt
