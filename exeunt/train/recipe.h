// SPDX-License-Identifier: Apache-2.0
// A training method as data: which heads stand where, what is minimised in which stages, and how gradients are treated
// (format exeunt.recipe/1). The papers are recipes like any user's. No torch here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// How a part of the heads is shared: one for each exit, one for all, one for each of `groups` runs of layers, or none.
enum class Sharing { none, own, shared, own_but_last, groups };
struct SharingSpec {
  Sharing kind = Sharing::own;
  int groups = 0;
};

enum class HeadInit { copy_pooler, normal };
enum class ExitPlaces { all, last, listed };
enum class GradientRule { none, equilibrium, logit_scale, project };
enum class Anchor { automatic, last, early };  // automatic: last for MNLI and QQP, early elsewhere (RomeBERT's code)
enum class ObjectiveKind { last, early_sum, sum, linear, alternate, limit, learned, distill, distill_early };
enum class DistillVariant { last, chain, group, bidir, ema, berxit };
enum class Trainable { all, backbone, exits };
enum class KeepBest { none, last, mean };  // which score of an evaluation decides: the last exit's, or the mean of all
enum class ClipScope { all, trainable };
enum class KlReduction { element, batch };
enum class ExcludeLast { generic, layer11 };
enum class LearnedGradient { fresh, accumulate };
enum class AdamKind { hf, torch };

struct HeadsSpec {
  SharingSpec reader{.kind = Sharing::none}, pooler = {}, classifier = {};
  PoolInput input = PoolInput::cls;
  std::optional<int> inner = {};
  bool lte = false;
  HeadInit init = HeadInit::copy_pooler;
};

struct ObjectiveSpec {
  ObjectiveKind kind = ObjectiveKind::sum;
  int layer = 0;                                           // limit
  double init = 4, lr = 0.01, floor = 0;                   // learned
  double gamma = 0.9, temperature = 3, momentum = 0.9999;  // distill; momentum: of the variant ema
  double beta = 1;                                         // distill, variant group: weight of the summed exits
  int range = 2;                                           // distill, variant group: how many exits are summed
  DistillVariant variant = DistillVariant::last;
};

// A number that may depend on the case: {"default": 3, "roberta": 10, "small": 6} (fewer than kSmallData training rows)
// or {"default": 5e-5, "regression": 2e-5}.
inline constexpr int64_t kSmallData = 10000;
struct CaseNumber {
  double value = 0;
  std::optional<double> roberta = {}, small = {}, regression = {};
};
// An objective may be another one where fewer than kFewPairs pairs of texts are learned:
// {"default": {"kind": "sum"}, "few_pairs": {"kind": "linear"}}.
inline constexpr int64_t kFewPairs = 5000;
struct TrainingCase {
  Family family = Family::bert;
  int64_t rows = 0;
  bool regression = false;
};
[[nodiscard]] double number_for(const CaseNumber& number, const TrainingCase& which) noexcept;

struct StageSpec {
  ObjectiveSpec objective = {};
  Trainable train = Trainable::all;
  CaseNumber epochs{.value = 3}, lr{.value = 2e-5};
  double head_lr = 1;   // times lr, for everything under "exits."
  double layer_lr = 1;  // a layer's rate over that of the layer above it; the last layer's is lr
  double weight_decay = 0, warmup = 0, clip = 1;
  int batch = 32;
  int eval_every = 0;                  // optimiser steps; 0 = only at the end
  std::optional<int> early_stop = {};  // evaluations without a better score
  KeepBest keep_best = KeepBest::none;
};

struct CompatSpec {
  ClipScope clip_scope = ClipScope::all;
  KlReduction kd_kl_reduction = KlReduction::element;
  ExcludeLast gr_exclude_last = ExcludeLast::generic;
  LearnedGradient dyn_grad = LearnedGradient::accumulate;
  AdamKind adamw = AdamKind::hf;
};

struct Recipe {
  std::string name;
  HeadsSpec heads;
  ExitPlaces places = ExitPlaces::all;
  std::vector<int> layers;  // where places is `listed`
  GradientRule gradient = GradientRule::none;
  Anchor anchor = Anchor::automatic;
  std::vector<StageSpec> stages;
  std::string policy = "full";
  int64_t seed = 42;
  CompatSpec compat;
};

// Throws Error (bad_file): an unknown field or value names the nearest known one; parts that contradict each other
// are refused here, before any model is read. "run" and "provenance", which a trained folder's recipe.json has, are
// passed over.
[[nodiscard]] Recipe parse_recipe(const Json& value, const std::string& where);
[[nodiscard]] OrderedJson recipe_json(const Recipe& recipe);
// A recipe that parses, with the objectives it has for so many training pairs (0: single texts) in place of a choice.
// Without this call parse_recipe takes the default ones.
[[nodiscard]] Json recipe_for(Json recipe, int64_t pairs);

// By the name of a shipped recipe, or the path of a JSON file. Throws Error: usage with the nearest name.
[[nodiscard]] Json find_recipe(const std::string& name_or_path);
[[nodiscard]] const std::vector<std::string>& recipe_names();

// What training is about to produce, besides the recipe.
struct Outcome {
  Problem problem = Problem::classification;
  std::vector<std::string> labels = {};
  std::optional<std::pair<double, double>> range = {};
};

// The exits a recipe asks for on a backbone. Throws Error (usage) where they do not fit: a layer the model does not
// have, groups that do not divide the layers.
[[nodiscard]] ExitLayout layout_of(const Recipe& recipe, const ModelSpec& spec, const Outcome& outcome);

// The policy a trained model runs by default: the recipe's, or for a regression under a rule that needs classes,
// patience with a tolerance of 2 % of the labels' range.
[[nodiscard]] std::string native_policy(const Recipe& recipe, const ExitLayout& layout);

}  // namespace exeunt
