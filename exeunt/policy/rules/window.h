// SPDX-License-Identifier: Apache-2.0
// window:S,N,mode[,margin=d][,range=r][,stat=s]: two stages. Leave when H(p) / ln C < S, or when the last N
// exits all lean to the same side: bias_1 that alone, bias_2 and never weaken, bias_3 and stay within r of each other.
//   stat class0:            the side is p[0] above 1/2 + d or below 1/2 - d, as in the original
//   stat argmax-consistent: the side is the label, if it leads by more than 2d; for two classes the same as class0
//   stat maxprob:           the one side is max p > 1/2 + d, whatever the label
#pragma once

#include "exeunt/policy/rule.h"

namespace exeunt {

struct WindowRule : RuleDefaults {
  static constexpr std::string_view kName = "window";
  static constexpr Measure kMeasure = {&Evidence::nentropy};
  enum Mode { bias_1, bias_2, bias_3 };
  enum Stat { automatic, class0, argmax_consistent, maxprob };  // automatic: class0 for two classes, else argmax
  static constexpr float kNoRange = -1;
  static constexpr std::string_view kModes[] = {"bias_1", "bias_2", "bias_3"};
  static constexpr std::string_view kStats[] = {"auto", "class0", "argmax-consistent", "maxprob"};
  static constexpr ParamInfo kList[] = {
      {.name = "threshold", .low = 0, .high = 1},
      {.name = "window", .kind = ParamKind::whole, .low = 1, .high = kMaxPatience},
      {.name = "mode", .kind = ParamKind::word, .words = kModes},
      {.name = "margin", .low = 0, .high = 0.5F, .keyed = true, .absent = 0},
      {.name = "range", .low = 0, .high = 1, .keyed = true, .absent = kNoRange},
      {.name = "stat", .kind = ParamKind::word, .keyed = true, .absent = automatic, .words = kStats}};
  static constexpr std::span<const ParamInfo> kParams = kList;

  // Run, side, then the last strengths. A window wider than the number of exits never fills, so that bounds its size.
  static int state_floats(const float* params, int exits) noexcept {
    return 2 + (params[1] < static_cast<float>(exits) ? static_cast<int>(params[1]) : exits);
  }
  static int first_exit(const float* params) noexcept { return params[0] > 0 ? 0 : static_cast<int>(params[1]) - 1; }
  static std::string_view conflict(const float* params) noexcept {
    const bool ranged = params[4] != kNoRange;
    if (static_cast<int>(params[2]) == bias_3 && !ranged) return "bias_3 needs range=";
    if (static_cast<int>(params[2]) != bias_3 && ranged) return "range= belongs to bias_3";
    return {};
  }

  static void settle(float* params, const ModelTraits& traits) noexcept {
    if (static_cast<int>(params[5]) == automatic)
      params[5] = traits.classes > 2 || traits.problem == Problem::multi_label ? argmax_consistent : class0;
  }

  static std::vector<Params> candidates(const Scope& scope) {
    std::vector<Params> out;
    for (int width = 2; width <= scope.exits && width <= 8; ++width)
      for (const double value : cubic_grid(1, 20))
        for (const Mode mode : {bias_1, bias_2})
          out.push_back(
              {static_cast<float>(value), static_cast<float>(width), static_cast<float>(mode), 0, kNoRange, automatic});
    return out;
  }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    const int width = static_cast<int>(args.params[1]);
    const int mode = static_cast<int>(args.params[2]);
    const Lean lean = lean_of(args, e);
    float* strengths = state + 2;  // strengths[n % width] belongs to the nth exit
    bool goes_on = lean.side != 0 && lean.side == state[1];
    if (mode == bias_2 && goes_on) {
      const float before = strengths[(args.nth - 1) % width];
      goes_on = lean.side < 0 ? lean.strength <= before : lean.strength >= before;
    }
    state[0] = goes_on ? state[0] + 1 : (lean.side != 0 ? 1.0F : 0.0F);
    state[1] = lean.side;
    strengths[args.nth % width] = lean.strength;
    if (e.nentropy < args.params[0]) return true;
    if (state[0] < args.params[1]) return false;
    return mode != bias_3 || spread(strengths, width) <= args.params[4];
  }

 private:
  struct Lean {
    float side;      // 0 = undecided
    float strength;  // grows with the side's certainty, except that class0's low side falls
  };
  EXEUNT_HOST_DEVICE static Lean lean_of(const RuleArgs& args, const Evidence& e) noexcept {
    const float margin = args.params[3];
    switch (static_cast<int>(args.params[5])) {
      case argmax_consistent:
        return {e.margin > 2 * margin ? static_cast<float>(e.label + 1) : 0.0F, e.confidence};
      case maxprob:
        return {e.confidence > 0.5F + margin ? 1.0F : 0.0F, e.confidence};
      default:
        return {e.first > 0.5F + margin ? 1.0F : (e.first < 0.5F - margin ? -1.0F : 0.0F), e.first};
    }
  }
  EXEUNT_HOST_DEVICE static float spread(const float* values, int count) noexcept {
    float low = values[0], high = values[0];
    for (int i = 1; i < count; ++i) {
      low = values[i] < low ? values[i] : low;
      high = values[i] > high ? values[i] : high;
    }
    return high - low;
  }
};

}  // namespace exeunt
