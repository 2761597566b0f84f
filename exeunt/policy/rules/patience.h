// SPDX-License-Identifier: Apache-2.0
// patience:t[,tol=r]: leave when t exits in a row agreed with the one before them. Labels agree when equal;
// numbers agree when |z_i - z_(i-1)| < tol. The earliest exit is the (t+1)th; patience:0 is the full model.
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct PatienceRule : RuleDefaults {
  static constexpr std::string_view kName = "patience";
  static constexpr Measure kMeasure = {.streak = true};
  static constexpr float kNoTolerance = -1;
  static constexpr ParamInfo kList[] = {
      {.name = "patience", .kind = ParamKind::whole, .low = 0, .high = kMaxPatience},
      {.name = "tol", .low = 0, .high = 1e30F, .keyed = true, .absent = kNoTolerance}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr bool kUsual = true;

  static int state_floats(const float*, int) noexcept { return 3; }  // run, begun, label or value before
  static int sole_layer(const float* params) noexcept { return params[0] == 0 ? kLastExit : kEveryExit; }
  static int first_exit(const float* params) noexcept { return static_cast<int>(params[0]); }
  static std::string_view misfit(const float* params, const ModelTraits& traits) noexcept {
    const bool tolerant = params[1] != kNoTolerance;
    if (params[0] == 0 || tolerant == (traits.problem == Problem::regression)) return {};
    return tolerant ? "tol= compares numbers, and the model predicts classes"
                    : "numbers agree only within a tolerance: add tol=, as in patience:6,tol=0.1";
  }

  static std::vector<Params> candidates(const Scope& scope) {
    std::vector<Params> out;
    for (int t = 1; t < scope.exits; ++t) {
      const auto patience = static_cast<float>(t);
      if (scope.classes > 1) out.push_back({patience, kNoTolerance});
      for (const double tolerance : cubic_grid(scope.range, scope.classes > 1 ? 0 : 40))
        out.push_back({patience, static_cast<float>(tolerance)});
    }
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    const bool begun = state[1] != 0;
    const bool tolerant = args.params[1] != kNoTolerance;
    const float now = tolerant ? e.value : static_cast<float>(e.label);
    const bool agrees = begun && (tolerant ? std::fabs(now - state[2]) < args.params[1] : now == state[2]);
    state[0] = agrees ? state[0] + 1 : 0;
    state[1] = 1;
    state[2] = now;
    return state[0] == args.params[0];
  }
};

}  // namespace exeunt
