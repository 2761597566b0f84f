// SPDX-License-Identifier: Apache-2.0
// entropy:S: leave when H(p) < S (DeeBERT, RomeBERT, ElasticBERT; BranchyNet before them).
#pragma once

#include "exeunt/exits/rule.h"

namespace exeunt {

struct EntropyRule : RuleDefaults {
  static constexpr std::string_view kName = "entropy";
  // H never exceeds ln C, so 16 is beyond nine million classes; thresholds above ln C simply always leave.
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 16}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::threshold;
  static constexpr int kBolder = 1;

  static std::vector<Params> candidates(const Scope& scope) {
    std::vector<Params> out;
    for (const double value : fine_near_zero(std::log(scope.classes), 200)) out.push_back({static_cast<float>(value)});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.entropy < args.own;
  }
};

}  // namespace exeunt
