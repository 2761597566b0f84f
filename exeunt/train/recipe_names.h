// SPDX-License-Identifier: Apache-2.0
// The words of a recipe file, in the order of the enumerations they stand for.
#pragma once

#include <array>
#include <string_view>

#include "exeunt/train/recipe.h"

namespace exeunt {

inline constexpr std::array<std::string_view, 5> kSharings{"none", "own", "shared", "own_but_last", "groups"};
inline constexpr std::array<std::string_view, 2> kHeadInits{"copy_pooler", "normal"};
inline constexpr std::array<std::string_view, 4> kGradientRules{"none", "equilibrium", "logit_scale", "project"};
inline constexpr std::array<std::string_view, 3> kAnchors{"auto", "last", "early"};
inline constexpr std::array<std::string_view, 9> kObjectives{
    "last", "early_sum", "sum", "linear", "alternate", "limit", "learned", "distill", "distill_early"};
inline constexpr std::array<std::string_view, 6> kVariants{"last", "chain", "group", "bidir", "ema", "berxit"};
inline constexpr std::array<std::string_view, 3> kTrainables{"all", "backbone", "exits"};
inline constexpr std::array<std::string_view, 3> kKeepBests{"none", "last", "mean"};
inline constexpr std::array<std::string_view, 2> kClipScopes{"all", "trainable"};
inline constexpr std::array<std::string_view, 2> kKlReductions{"element", "batch"};
inline constexpr std::array<std::string_view, 2> kExcludeLasts{"generic", "layer11"};
inline constexpr std::array<std::string_view, 2> kLearnedGradients{"fresh", "accumulate"};
inline constexpr std::array<std::string_view, 2> kAdams{"hf", "torch"};

// Chosen by the enumeration's type; the value does not matter.
constexpr const auto& names_of(Sharing) noexcept {
  return kSharings;
}
constexpr const auto& names_of(HeadInit) noexcept {
  return kHeadInits;
}
constexpr const auto& names_of(GradientRule) noexcept {
  return kGradientRules;
}
constexpr const auto& names_of(Anchor) noexcept {
  return kAnchors;
}
constexpr const auto& names_of(ObjectiveKind) noexcept {
  return kObjectives;
}
constexpr const auto& names_of(DistillVariant) noexcept {
  return kVariants;
}
constexpr const auto& names_of(Trainable) noexcept {
  return kTrainables;
}
constexpr const auto& names_of(KeepBest) noexcept {
  return kKeepBests;
}
constexpr const auto& names_of(ClipScope) noexcept {
  return kClipScopes;
}
constexpr const auto& names_of(KlReduction) noexcept {
  return kKlReductions;
}
constexpr const auto& names_of(ExcludeLast) noexcept {
  return kExcludeLasts;
}
constexpr const auto& names_of(LearnedGradient) noexcept {
  return kLearnedGradients;
}
constexpr const auto& names_of(AdamKind) noexcept {
  return kAdams;
}

template <class Enum>
constexpr std::string_view word_of(Enum value) noexcept {
  return names_of(value)[static_cast<size_t>(value)];
}

}  // namespace exeunt
