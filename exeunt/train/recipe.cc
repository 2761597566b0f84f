// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/recipe.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/layout.h"
#include "exeunt/train/recipe_names.h"
#include "exeunt/train/shipped.h"

namespace exeunt {
namespace {

constexpr const char* kFormat = "exeunt.recipe/1";

std::vector<std::string> choices(const auto& names) {
  return {names.begin(), names.end()};
}

// One of an enumeration's names; absent = what stands in `value`.
template <class Enum>
void read_choice(JsonObject& fields, std::string_view name, Enum& value) {
  if (!fields.has(name)) {
    fields.ignore(name);
    return;
  }
  const auto& names = names_of(Enum{});
  const std::string text = fields.choice(name, choices(names));
  value = static_cast<Enum>(std::find(names.begin(), names.end(), text) - names.begin());
}

double number_in(JsonObject& fields, std::string_view name, double absent, double low, double high) {
  const double value = fields.number_or(name, absent);
  if (value < low || value > high) {
    fields.fail(name, fmt::format("{}", value), fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

SharingSpec parse_sharing(JsonObject& fields, std::string_view name, const std::vector<Sharing>& allowed,
                          SharingSpec absent) {
  if (!fields.has(name)) {
    fields.ignore(name);
    return absent;
  }
  const std::string text = fields.string(name);
  std::vector<std::string> known;
  for (const Sharing kind : allowed) {
    const std::string kind_name(names_of(Sharing{})[static_cast<size_t>(kind)]);
    known.push_back(kind == Sharing::groups ? "groups:K" : kind_name);
    if (kind != Sharing::groups && text == kind_name) return {.kind = kind};
    if (kind != Sharing::groups || !text.starts_with("groups:")) continue;
    int groups = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 7, end, groups);
    if (error == std::errc{} && stop == end && groups >= 1 && groups <= kMaxLayers)
      return {.kind = kind, .groups = groups};
  }
  throw Error(Code::bad_file, fmt::format("{}: field '{}': got \"{}\"", fields.where(), name, text),
              suggestion(text, known));
}

HeadsSpec parse_heads(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  HeadsSpec heads;
  heads.reader = parse_sharing(fields, "reader", {Sharing::none, Sharing::own, Sharing::shared, Sharing::own_but_last},
                               heads.reader);
  heads.pooler =
      parse_sharing(fields, "pooler", {Sharing::own, Sharing::shared, Sharing::none, Sharing::groups}, heads.pooler);
  heads.classifier =
      parse_sharing(fields, "classifier", {Sharing::own, Sharing::shared, Sharing::groups}, heads.classifier);
  if (fields.has("pool_input")) {
    const auto names = pool_input_names();
    heads.input = *pool_input_named(fields.choice("pool_input", {names.begin(), names.end()}));
  }
  fields.ignore("pool_input");
  if (fields.has("inner")) heads.inner = static_cast<int>(fields.integer("inner", 1, kMaxHidden));
  fields.ignore("inner");
  heads.lte = fields.boolean_or("lte", false);
  read_choice(fields, "init", heads.init);
  fields.finish();
  if (heads.reader.kind != Sharing::none && heads.pooler.kind == Sharing::none) {
    throw_bad_file(where, "a reader needs a pooler: got reader '{}' with pooler 'none'",
                   names_of(Sharing{})[static_cast<size_t>(heads.reader.kind)]);
  }
  return heads;
}

// Each kind of objective has parameters of its own; others are unknown fields.
ObjectiveSpec parse_objective(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  ObjectiveSpec objective;
  (void)fields.get("kind");
  read_choice(fields, "kind", objective.kind);
  switch (objective.kind) {
    case ObjectiveKind::limit:
      objective.layer = static_cast<int>(fields.integer("layer", 1, kMaxLayers));
      break;
    case ObjectiveKind::learned:
      objective.init = number_in(fields, "init", objective.init, -50, 50);
      objective.lr = number_in(fields, "lr", objective.lr, 0, 10);
      objective.floor = number_in(fields, "floor", objective.floor, 0, 1);
      break;
    case ObjectiveKind::distill:
    case ObjectiveKind::distill_early:
      objective.gamma = number_in(fields, "gamma", objective.gamma, 0, 1);
      objective.temperature = number_in(fields, "temperature", objective.temperature, 1e-3, 1e3);
      read_choice(fields, "variant", objective.variant);
      if (objective.variant == DistillVariant::ema) {
        objective.momentum = number_in(fields, "momentum", objective.momentum, 0, 1);
      }
      if (objective.variant == DistillVariant::group) {
        objective.beta = number_in(fields, "beta", objective.beta, 0, 1e3);
        objective.range = static_cast<int>(fields.integer_or("range", 1, kMaxLayers, objective.range));
      }
      break;
    default:
      break;
  }
  fields.finish();
  return objective;
}

// One objective, or a choice by what is learned, of which the default is taken.
ObjectiveSpec parse_objectives(const Json& value, const std::string& where) {
  if (!value.is_object() || !value.contains("default")) return parse_objective(value, where);
  JsonObject cases(value, where);
  if (const Json* pairs = cases.find("few_pairs")) (void)parse_objective(*pairs, where + ": few_pairs");
  const ObjectiveSpec objective = parse_objective(cases.get("default"), where + ": default");
  cases.finish();
  return objective;
}

CaseNumber parse_case_number(JsonObject& fields, std::string_view name, CaseNumber absent, double low, double high) {
  const Json* value = fields.find(name);
  if (value == nullptr) return absent;
  if (!value->is_object()) return {.value = number_in(fields, name, 0, low, high)};
  JsonObject cases(*value, fmt::format("{}: field '{}'", fields.where(), name));
  CaseNumber out{.value = number_in(cases, "default", absent.value, low, high)};
  const auto one = [&](std::string_view key, std::optional<double>& into) {
    if (cases.has(key)) into = number_in(cases, key, 0, low, high);
    cases.ignore(key);
  };
  one("roberta", out.roberta);
  one("small", out.small);
  one("regression", out.regression);
  cases.finish();
  return out;
}

StageSpec parse_stage(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  StageSpec stage;
  stage.objective = parse_objectives(fields.get("objective"), where + ": objective");
  read_choice(fields, "train", stage.train);
  stage.epochs = parse_case_number(fields, "epochs", stage.epochs, 0, 1e6);
  stage.lr = parse_case_number(fields, "lr", stage.lr, 0, 10);
  stage.head_lr = number_in(fields, "head_lr", stage.head_lr, 0, 1e6);
  stage.layer_lr = number_in(fields, "layer_lr", stage.layer_lr, 0, 10);
  stage.weight_decay = number_in(fields, "weight_decay", stage.weight_decay, 0, 10);
  stage.warmup = number_in(fields, "warmup", stage.warmup, 0, 1);
  stage.clip = number_in(fields, "clip", stage.clip, 0, 1e9);
  stage.batch = static_cast<int>(fields.integer_or("batch", 1, 1 << 20, stage.batch));
  stage.eval_every = static_cast<int>(fields.integer_or("eval_every", 0, 1 << 30, 0));
  if (fields.has("early_stop")) stage.early_stop = static_cast<int>(fields.integer("early_stop", 1, 1 << 20));
  fields.ignore("early_stop");
  read_choice(fields, "keep_best", stage.keep_best);
  fields.finish();
  if (stage.early_stop && stage.eval_every == 0) {
    throw_bad_file(where, "early_stop counts evaluations, but eval_every is 0");
  }
  return stage;
}

CompatSpec parse_compat(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  CompatSpec compat;
  read_choice(fields, "clip_scope", compat.clip_scope);
  read_choice(fields, "kd_kl_reduction", compat.kd_kl_reduction);
  read_choice(fields, "gr_exclude_last", compat.gr_exclude_last);
  read_choice(fields, "dyn_grad", compat.dyn_grad);
  read_choice(fields, "adamw", compat.adamw);
  fields.finish();
  return compat;
}

void parse_places(JsonObject& fields, Recipe& recipe) {
  const Json* value = fields.find("exits");
  if (value == nullptr) return;
  if (value->is_string()) {
    recipe.places = fields.choice("exits", {"all", "last"}) == "all" ? ExitPlaces::all : ExitPlaces::last;
    return;
  }
  recipe.places = ExitPlaces::listed;
  if (!value->is_array() || value->empty())
    fields.fail("exits", glimpse(*value), "\"all\", \"last\" or a list of layers");
  for (const Json& layer : *value) {
    const bool fits = layer.is_number_integer() && layer >= 1 && layer <= kMaxLayers;
    if (!fits) fields.fail("exits", glimpse(layer), fmt::format("layers from 1 to {}", kMaxLayers));
    recipe.layers.push_back(layer.get<int>());
  }
}

// Parts that are fine alone and make no sense together.
void check_recipe(const Recipe& recipe, const std::string& where) {
  const bool one_exit = recipe.places == ExitPlaces::last;
  for (size_t i = 0; i < recipe.stages.size(); ++i) {
    const StageSpec& stage = recipe.stages[i];
    const std::string place = fmt::format("{}: stages[{}]", where, i);
    const ObjectiveKind kind = stage.objective.kind;
    const bool early_only = kind == ObjectiveKind::early_sum || kind == ObjectiveKind::distill_early;
    if (one_exit && (early_only || stage.train == Trainable::exits)) {
      throw_bad_file(place, "trains the exits before the last, but the recipe has only the last");
    }
    if (stage.train == Trainable::exits && kind == ObjectiveKind::last) {
      throw_bad_file(place, "trains the exits before the last on the last exit's loss, which does not reach them");
    }
    if (recipe.gradient == GradientRule::project &&
        (kind == ObjectiveKind::last || early_only || kind == ObjectiveKind::limit)) {
      throw_bad_file(place, "the projection needs a loss of the last exit and one of the others");
    }
  }
}

}  // namespace

double number_for(const CaseNumber& number, const TrainingCase& which) noexcept {
  if (which.regression && number.regression) return *number.regression;
  if (which.rows < kSmallData && number.small) return *number.small;
  if (which.family == Family::roberta && number.roberta) return *number.roberta;
  return number.value;
}

Recipe parse_recipe(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  if (const std::string format = fields.string("format"); format != kFormat) {
    fields.fail("format", fmt::format("\"{}\"", format), fmt::format("\"{}\"", kFormat));
  }
  Recipe recipe;
  recipe.name = fields.string("name");
  if (const Json* heads = fields.find("heads")) recipe.heads = parse_heads(*heads, where + ": heads");
  parse_places(fields, recipe);
  if (const Json* gradient = fields.find("gradient")) {
    JsonObject rule(*gradient, where + ": gradient");
    read_choice(rule, "rule", recipe.gradient);
    read_choice(rule, "anchor", recipe.anchor);
    rule.finish();
  }
  const Json& stages = fields.get("stages");
  if (!stages.is_array() || stages.empty()) fields.fail("stages", glimpse(stages), "a list of at least one stage");
  for (size_t i = 0; i < stages.size(); ++i) {
    recipe.stages.push_back(parse_stage(stages[i], fmt::format("{}: stages[{}]", where, i)));
  }
  recipe.policy = fields.string_or("policy", recipe.policy);
  try {
    (void)parse_policy(recipe.policy);
  } catch (const Error& error) {
    throw Error(Code::bad_file, fmt::format("{}: field 'policy': {}", where, error.what()), error.hint());
  }
  recipe.seed = fields.integer_or("seed", 0, int64_t{1} << 62, recipe.seed);
  if (const Json* compat = fields.find("compat")) recipe.compat = parse_compat(*compat, where + ": compat");
  fields.ignore("run");
  fields.ignore("provenance");
  fields.finish();
  check_recipe(recipe, where);
  return recipe;
}

Json recipe_for(Json recipe, int64_t pairs) {
  const bool few = pairs > 0 && pairs < kFewPairs;
  for (Json& stage : recipe.at("stages")) {
    Json& objective = stage.at("objective");
    if (!objective.contains("default")) continue;
    const Json chosen = objective.at(few && objective.contains("few_pairs") ? "few_pairs" : "default");
    objective = chosen;
  }
  return recipe;
}

Json find_recipe(const std::string& name_or_path) {
  const std::string_view text = shipped_recipe(name_or_path + ".json");
  if (!text.empty()) return parse_json(text, name_or_path);
  if (name_or_path.ends_with(".json") || path_exists(name_or_path)) return read_json(name_or_path);
  throw Error(Code::usage, fmt::format("unknown recipe '{}'", name_or_path), suggestion(name_or_path, recipe_names()));
}

namespace {

// Indices of a shared part: each exit's own, one for all, or one for each run of L / K layers.
int index_of(const SharingSpec& sharing, size_t exit, int after, int layers) {
  if (sharing.kind == Sharing::shared) return 0;
  if (sharing.kind == Sharing::groups) return (after - 1) / (layers / sharing.groups);
  return static_cast<int>(exit);
}

// Groups without an exit would leave gaps, so indices are counted anew in the order of their first use.
template <class Get>
void close_gaps(std::vector<ExitSite>& sites, Get get) {
  std::vector<int> seen;
  for (ExitSite& site : sites) {
    int* index = get(site);
    if (index == nullptr) continue;
    auto place = std::find(seen.begin(), seen.end(), *index);
    if (place == seen.end()) place = seen.insert(seen.end(), *index);
    *index = static_cast<int>(place - seen.begin());
  }
}

std::vector<int> exit_layers(const Recipe& recipe, const ModelSpec& spec) {
  if (recipe.places == ExitPlaces::last) return {spec.layers};
  std::vector<int> layers = recipe.layers;
  if (recipe.places == ExitPlaces::all) {
    for (int i = 1; i <= spec.layers; ++i) layers.push_back(i);
  }
  for (const int layer : layers) {
    if (layer > spec.layers) {
      throw Error(Code::usage, fmt::format("recipe '{}': an exit after layer {}, but the model has {} layers",
                                           recipe.name, layer, spec.layers));
    }
  }
  return layers;
}

void require_groups(const Recipe& recipe, const SharingSpec& sharing, std::string_view part, int layers) {
  if (sharing.kind != Sharing::groups || layers % sharing.groups == 0) return;
  throw Error(Code::usage, fmt::format("recipe '{}': {} groups of {}s, want a divisor of the {} layers", recipe.name,
                                       sharing.groups, part, layers));
}

}  // namespace

ExitLayout layout_of(const Recipe& recipe, const ModelSpec& spec, const Outcome& outcome) {
  const HeadsSpec& heads = recipe.heads;
  require_groups(recipe, heads.pooler, "pooler", spec.layers);
  require_groups(recipe, heads.classifier, "classifier", spec.layers);
  ExitLayout layout;
  layout.problem = outcome.problem;
  layout.labels = outcome.labels;
  layout.outputs = outcome.problem == Problem::regression ? 1 : static_cast<int>(outcome.labels.size());
  layout.range = outcome.range;
  layout.input = heads.input;
  layout.width = spec.hidden;
  layout.inner = heads.inner;
  layout.lte = heads.lte;
  const std::vector<int> layers = exit_layers(recipe, spec);
  for (size_t e = 0; e < layers.size(); ++e) {
    ExitSite site{.after = layers[e], .classifier = index_of(heads.classifier, e, layers[e], spec.layers)};
    if (heads.pooler.kind != Sharing::none) site.pooler = index_of(heads.pooler, e, layers[e], spec.layers);
    const bool last = e + 1 == layers.size();
    if (heads.reader.kind != Sharing::none && !(last && heads.reader.kind == Sharing::own_but_last)) {
      site.reader = index_of(heads.reader, e, layers[e], spec.layers);
    } else if (last && heads.reader.kind == Sharing::own_but_last && heads.pooler.kind != Sharing::own &&
               layers.size() > 1) {
      site.pooler = kMaxLayers;  // one of its own: a pooler cannot read with and without a reader
    }
    layout.sites.push_back(site);
  }
  close_gaps(layout.sites, [](ExitSite& site) { return &site.classifier; });
  close_gaps(layout.sites, [](ExitSite& site) { return site.pooler ? &*site.pooler : nullptr; });
  close_gaps(layout.sites, [](ExitSite& site) { return site.reader ? &*site.reader : nullptr; });
  check_layout(spec, layout, fmt::format("recipe '{}'", recipe.name));
  return layout;
}

std::string native_policy(const Recipe& recipe, const ExitLayout& layout) {
  if (layout.sites.size() == 1) return "full";
  if (layout.problem == Problem::classification || recipe.policy.starts_with("full") ||
      recipe.policy.starts_with("layer")) {
    return recipe.policy;
  }
  const double span = layout.range ? layout.range->second - layout.range->first : 1.0;
  return fmt::format("patience:3,tol={}", 0.02 * span);
}

}  // namespace exeunt
