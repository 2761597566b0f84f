// SPDX-License-Identifier: Apache-2.0
// All exit rules. A new rule is a struct in a file here and one row in this list; text forms, sweeps,
// replay, engine and calibration take it from there.
#pragma once

#include <array>
#include <type_traits>

#include "exeunt/policy/rules/fixed.h"
#include "exeunt/policy/rules/patience.h"
#include "exeunt/policy/rules/threshold.h"
#include "exeunt/policy/rules/vote.h"
#include "exeunt/policy/rules/window.h"

namespace exeunt {

template <class... R>
struct RuleList {};

using Rules = RuleList<FullRule,        //
                       LayerRule,       //
                       EntropyRule,     //
                       NentropyRule,    //
                       ConfidenceRule,  //
                       GiniRule,        //
                       MarginRule,      //
                       MinprobRule,     //
                       PatienceRule,    //
                       WindowRule,      //
                       PceeRule,        //
                       DivergenceRule,  //
                       VoteRule,        //
                       LteRule>;

// A rule as data, for what works by table: parsing, printing, checking.
struct RuleInfo {
  std::string_view name;
  std::span<const ParamInfo> params;
  PerExit per_exit;
  bool reads_shift;
  Measure measure;
  bool usual;
  int (*state_floats)(const float* params, int exits);
  int (*sole_layer)(const float* params);
  int (*first_exit)(const float* params);
  std::vector<Params> (*candidates)(const Scope& scope);
  bool (*repeats_another)(int classes);
  void (*settle)(float* params, const ModelTraits& traits);
  std::string_view (*conflict)(const float* params);
  std::string_view (*misfit)(const float* params, const ModelTraits& traits);
};

namespace detail {

template <class Wanted, class... R>
constexpr Rule place_of(RuleList<R...>) {
  uint8_t place = 0;
  (void)((std::is_same_v<Wanted, R> || (++place, false)) || ...);
  return Rule{place};
}

template <class... R>
constexpr std::array<RuleInfo, sizeof...(R)> infos(RuleList<R...>) {
  static_assert(((R::kParams.size() <= kMaxParams) && ...));
  return {RuleInfo{R::kName, R::kParams, R::kPerExit, R::kReadsShift, R::kMeasure, R::kUsual, &R::state_floats,
                   &R::sole_layer, &R::first_exit, &R::candidates, &R::repeats_another, &R::settle, &R::conflict,
                   &R::misfit}...};
}

}  // namespace detail

template <class R>
inline constexpr Rule rule_of = detail::place_of<R>(Rules{});

inline constexpr auto kRules = detail::infos(Rules{});

[[nodiscard]] inline const RuleInfo& info_of(Rule rule) {
  return kRules[static_cast<size_t>(rule)];
}

// Does a rule suit a model, with settings as calibration would choose them?
[[nodiscard]] inline bool suits(const RuleInfo& rule, const ModelTraits& traits) {
  const std::vector<Params> settings = rule.candidates({.classes = traits.classes, .exits = 4, .range = 1});
  const Params params = settings.empty() ? Params{} : settings.front();
  return rule.misfit(params.data(), traits).empty();
}

}  // namespace exeunt
