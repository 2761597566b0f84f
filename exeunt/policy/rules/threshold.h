// SPDX-License-Identifier: Apache-2.0
// Rules that compare one number of an exit's evidence with a threshold. Leave when
//   entropy:S        H(p) < S
//   nentropy:S       H(p) / ln C < S (the first stage of window, too)
//   gini:t           the Gini impurity, 1 - sum p^2, is below t
//   minprob:t        the smallest probability is below t
//   lte:t            the learning-to-exit head's "should continue" falls below t
//   confidence:t     the largest probability exceeds t (Shallow-Deep networks)
//   margin:t         the largest probability leads the second by more than t
//   pcee:S,t         t exits in a row had H(p) / ln C < S; their labels need not agree (PCEE-BERT)
//   divergence:r,t   t exits in a row moved less than r, in Jensen-Shannon divergence, from the one before (patience
//                    over distributions instead of labels)
#pragma once

#include <algorithm>

#include "exeunt/policy/rule.h"

namespace exeunt {

// A threshold from 0 to 1, which may differ from exit to exit.
template <float Evidence::*field>
struct ThresholdRule : RuleDefaults {
  static constexpr Measure kMeasure = {field};
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr PerExit kPerExit = PerExit::threshold;
};

template <float Evidence::*field>
struct BelowRule : ThresholdRule<field> {
  static std::vector<Params> candidates(const Scope&) { return thresholds_up_to(1); }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.*field < args.exit_value;
  }
};

template <float Evidence::*field>
struct AboveRule : ThresholdRule<field> {
  static std::vector<Params> candidates(const Scope&) { return thresholds_below_one(); }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float*) noexcept {
    return e.*field > args.exit_value;
  }
};

template <float Evidence::*field>
struct BelowInARowRule : RuleDefaults {
  static constexpr Measure kMeasure = {field};
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 1},
                                        {.name = "patience", .kind = ParamKind::whole, .low = 1, .high = kMaxPatience}};
  static constexpr std::span<const ParamInfo> kParams = kList;

  static int state_floats(const float*, int) noexcept { return 1; }  // run
  static int first_exit(const float* params) noexcept { return static_cast<int>(params[1]) - 1; }

  EXEUNT_HOST_DEVICE static bool leave(const RuleArgs& args, const Evidence& e, float* state) noexcept {
    state[0] = e.*field < args.params[0] ? state[0] + 1 : 0;
    return state[0] == args.params[1];
  }
};

struct EntropyRule : BelowRule<&Evidence::entropy> {
  static constexpr std::string_view kName = "entropy";
  // H never exceeds ln C, so 16 is beyond nine million classes; thresholds above ln C simply always leave.
  static constexpr ParamInfo kList[] = {{.name = "threshold", .low = 0, .high = 16}};
  static constexpr std::span<const ParamInfo> kParams = kList;
  static constexpr bool kUsual = true;
  static std::vector<Params> candidates(const Scope& scope) {
    return thresholds_up_to(std::min(16.0, scope.most_entropy()));
  }
};

struct NentropyRule : BelowRule<&Evidence::nentropy> {
  static constexpr std::string_view kName = "nentropy";
  static bool repeats_another(int) noexcept { return true; }  // entropy, by a constant factor
};

struct GiniRule : BelowRule<&Evidence::impurity> {
  static constexpr std::string_view kName = "gini";
  // Of two classes, the impurity rises with entropy.
  static bool repeats_another(int classes) noexcept { return classes == 2; }
};

// Of two classes the same as confidence above 1 - t. With many it separates little, so calibration does not try it.
struct MinprobRule : BelowRule<&Evidence::least> {
  static constexpr std::string_view kName = "minprob";
  static std::vector<Params> candidates(const Scope&) { return {}; }
};

struct LteRule : BelowRule<&Evidence::lte> {
  static constexpr std::string_view kName = "lte";
  static constexpr bool kUsual = true;
  static std::string_view misfit(const float*, const ModelTraits& traits) noexcept {
    return traits.lte ? std::string_view{} : "the model has no learning-to-exit head";
  }
};

struct ConfidenceRule : AboveRule<&Evidence::confidence> {
  static constexpr std::string_view kName = "confidence";
  // Of two classes, the more probable one's share falls as entropy rises.
  static bool repeats_another(int classes) noexcept { return classes == 2; }
};

struct MarginRule : AboveRule<&Evidence::margin> {
  static constexpr std::string_view kName = "margin";
  static constexpr bool kUsual = true;
  // Of two classes, the lead falls as entropy rises.
  static bool repeats_another(int classes) noexcept { return classes == 2; }
};

struct PceeRule : BelowInARowRule<&Evidence::nentropy> {
  static constexpr std::string_view kName = "pcee";
  static constexpr bool kUsual = true;
  static std::vector<Params> candidates(const Scope& scope) { return thresholds_with_patience(1, scope.exits); }
};

struct DivergenceRule : BelowInARowRule<&Evidence::shift> {
  static constexpr std::string_view kName = "divergence";
  static constexpr bool kReadsShift = true;
  static std::vector<Params> candidates(const Scope& scope) {
    return thresholds_with_patience(0.7, scope.exits);  // the divergence itself never exceeds ln 2
  }
};

}  // namespace exeunt
