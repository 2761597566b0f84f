// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/recipe.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/family.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

constexpr const char* kFormat = "exeunt.recipe/1";
constexpr std::array<std::string_view, 4> kSharings{"none", "own", "shared", "own_but_last"};  // without groups

// The cases of a number other than families: name and value.
template <class Number, class Visit>
void each_case(Number& number, Visit&& visit) {
  visit("small", number.small);
  visit("regression", number.regression);
}

}  // namespace

void read_field(JsonObject& object, const Field& field, SharingSpec& value) {
  if (object.find(field.name) == nullptr) return;
  const std::string text = object.string(field.name);
  const std::vector<std::string> known(field.choices.begin(), field.choices.end());
  const bool grouped = text.starts_with("groups:") && known.back() == "groups:K";
  if (const auto groups = grouped ? number_of<int>(text.substr(7)) : std::nullopt;
      groups && *groups >= 1 && *groups <= kMaxLayers) {
    value = {.kind = Sharing::groups, .groups = *groups};
    return;
  }
  const auto found = std::find(kSharings.begin(), kSharings.end(), text);
  if (found == kSharings.end() || std::find(known.begin(), known.end(), text) == known.end()) {
    throw Error(Code::bad_file, fmt::format("{}: field '{}': got \"{}\"", object.where(), field.name, text),
                suggestion(text, known));
  }
  value = {.kind = static_cast<Sharing>(found - kSharings.begin())};
}

OrderedJson field_json(const SharingSpec& value) {
  if (value.kind == Sharing::groups) return fmt::format("groups:{}", value.groups);
  return kSharings[static_cast<size_t>(value.kind)];
}

void read_field(JsonObject& object, const Field& field, ExitsSpec& value) {
  const Json* found = object.find(field.name);
  if (found == nullptr) return;
  if (found->is_string()) {
    const std::string text = found->get<std::string>();
    constexpr std::string_view kLast = "last:";
    if (!text.starts_with(kLast)) {
      value = {.places = object.choice(field.name, {"all", "last"}) == "all" ? ExitPlaces::all : ExitPlaces::last};
      return;
    }
    const auto count = number_of<int>(text.substr(kLast.size()));
    if (!count || *count < 1 || *count > kMaxLayers)
      object.fail(field.name, text, fmt::format("last:K with K from 1 to {}", kMaxLayers));
    value = {.places = ExitPlaces::last, .count = *count};
    return;
  }
  value = {.places = ExitPlaces::listed};
  if (!found->is_array() || found->empty())
    object.fail(field.name, glimpse(*found), "\"all\", \"last\", \"last:K\" or a list of layers");
  for (const Json& layer : *found) {
    const bool fits = layer.is_number_integer() && layer >= 1 && layer <= kMaxLayers;
    if (!fits) object.fail(field.name, glimpse(layer), fmt::format("layers from 1 to {}", kMaxLayers));
    value.layers.push_back(layer.get<int>());
  }
}

OrderedJson field_json(const ExitsSpec& value) {
  if (value.places == ExitPlaces::listed) return value.layers;
  if (value.places == ExitPlaces::all) return "all";
  return value.count == 1 ? OrderedJson("last") : OrderedJson(fmt::format("last:{}", value.count));
}

void read_field(JsonObject& object, const Field& field, AnchorSpec& value) {
  const Json* found = object.find(field.name);
  if (found == nullptr) return;
  value = {};
  if (!found->is_object()) {
    read_field(object, field, value.value);
  } else {
    JsonObject cases(*found, fmt::format("{}: field '{}'", object.where(), field.name));
    for (const auto& [task, anchor] : found->items()) {
      read_field(cases, Field{.name = task, .required = true}, task == "default" ? value.value : value.tasks[task]);
    }
  }
}

OrderedJson field_json(const AnchorSpec& value) {
  if (value.tasks.empty()) return word_of(value.value);
  OrderedJson out{{"default", word_of(value.value)}};
  for (const auto& [task, anchor] : value.tasks) out[task] = word_of(anchor);
  return out;
}

void read_field(JsonObject& object, const Field& field, StageObjective& value) {
  const Json* found = object.find(field.name);
  if (found == nullptr && field.required && !object.partial()) (void)object.get(field.name);
  if (found == nullptr) return;
  JsonObject cases(*found, fmt::format("{}: {}", object.where(), field.name), object.partial());
  ObjectiveSpec& standard = value;
  if (found->contains("default")) {
    read_field(cases, Field{.name = "default"}, standard);
    read_field(cases, Field{.name = "few_pairs"}, value.few_pairs);
  } else {
    read_fields(cases, standard);
  }
  cases.finish();
}

OrderedJson field_json(const StageObjective& value) {
  const ObjectiveSpec& standard = value;
  if (!value.few_pairs) return fields_json(standard);
  return {{"default", fields_json(standard)}, {"few_pairs", fields_json(*value.few_pairs)}};
}

void read_field(JsonObject& object, const Field& field, CaseNumber& value) {
  const Json* found = object.find(field.name);
  if (found == nullptr) return;
  if (!object.partial() || !found->is_object()) value = {.value = value.value};
  if (!found->is_object()) return read_field(object, field, value.value);
  JsonObject cases(*found, fmt::format("{}: field '{}'", object.where(), field.name));
  Field one = field;
  one.name = "default";
  read_field(cases, one, value.value);
  for (const FamilyRow& row : families()) {
    std::optional<double> number;
    one.name = row.name;
    read_field(cases, one, number);
    if (number) value.families[row.spec.family] = *number;
  }
  each_case(value, [&](std::string_view name, std::optional<double>& number) {
    one.name = name;
    read_field(cases, one, number);
  });
  cases.finish();
}

OrderedJson field_json(const CaseNumber& value) {
  OrderedJson out{{"default", value.value}};
  for (const auto& [family, number] : value.families) out[std::string(name_of(family))] = number;
  each_case(value, [&](const char* name, const std::optional<double>& number) {
    if (number) out[name] = *number;
  });
  return out.size() == 1 ? OrderedJson(value.value) : out;
}

double number_for(const CaseNumber& number, const TrainingCase& which) noexcept {
  if (which.problem == Problem::regression && number.regression) return *number.regression;
  if (which.rows < kSmallData && number.small) return *number.small;
  const auto family = number.families.find(which.family);
  return family == number.families.end() ? number.value : family->second;
}

void check_recipe(const Recipe& recipe, const std::string& where) {
  if (recipe.stages.empty()) throw_bad_file(where, "field 'stages': got an empty list, want at least one stage");
  if (recipe.heads.reader.kind != Sharing::none && recipe.heads.pooler.kind == Sharing::none) {
    throw_bad_file(where + ": heads", "a reader needs a pooler: got reader '{}' with pooler 'none'",
                   kSharings[static_cast<size_t>(recipe.heads.reader.kind)]);
  }
  try {
    (void)parse_policy(recipe.policy);
  } catch (const Error& error) {
    throw Error(Code::bad_file, fmt::format("{}: field 'policy': {}", where, error.what()), error.hint());
  }
  const bool one_exit = recipe.exits.places == ExitPlaces::last && recipe.exits.count == 1;
  for (size_t i = 0; i < recipe.stages.size(); ++i) {
    const StageSpec& stage = recipe.stages[i];
    const std::string place = fmt::format("{}: stages[{}]", where, i);
    const ObjectiveKind kind = stage.objective.kind;
    const bool early_only = kind == ObjectiveKind::early_sum || kind == ObjectiveKind::distill_early;
    if (stage.early_stop && stage.eval_every == 0) {
      throw_bad_file(place, "early_stop counts evaluations, but eval_every is 0");
    }
    if (one_exit && (early_only || stage.train == Trainable::exits)) {
      throw_bad_file(place, "trains the exits before the last, but the recipe has only the last");
    }
    if (stage.train == Trainable::exits && kind == ObjectiveKind::last) {
      throw_bad_file(place, "trains the exits before the last on the last exit's loss, which does not reach them");
    }
    if (recipe.gradient.rule == GradientRule::project &&
        (kind == ObjectiveKind::last || early_only || kind == ObjectiveKind::limit)) {
      throw_bad_file(place, "the projection needs a loss of the last exit and one of the others");
    }
  }
}

Recipe parse_recipe(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  if (const std::string format = object.string("format"); format != kFormat) {
    object.fail("format", fmt::format("\"{}\"", format), fmt::format("\"{}\"", kFormat));
  }
  Recipe recipe;
  read_fields(object, recipe);
  object.ignore("run");
  object.ignore("provenance");
  object.finish();
  check_recipe(recipe, where);
  return recipe;
}

OrderedJson recipe_json(const Recipe& recipe) {
  OrderedJson out{{"format", kFormat}};
  out.update(fields_json(recipe));
  return out;
}

Recipe find_recipe(const std::string& name_or_path) {
  const std::string_view text = shipped_recipe(name_or_path + ".json");
  if (!text.empty()) return parse_recipe(parse_json(text, name_or_path), name_or_path);
  if (name_or_path.ends_with(".json") || path_exists(name_or_path)) {
    return parse_recipe(read_json(name_or_path), name_or_path);
  }
  throw Unknown(Code::usage, fmt::format("unknown recipe '{}'", name_or_path),
                suggestion(name_or_path, recipe_names()));
}

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const std::string_view file : shipped_recipe_names()) found.emplace_back(file.substr(0, file.rfind('.')));
    std::sort(found.begin(), found.end());
    return found;
  }();
  return names;
}

Recipe recipe_for(Recipe recipe, const std::string& task, int64_t pairs) {
  AnchorSpec& anchor = recipe.gradient.anchor;
  if (const auto found = anchor.tasks.find(task); found != anchor.tasks.end()) anchor.value = found->second;
  anchor.tasks.clear();
  for (StageSpec& stage : recipe.stages) {
    const std::optional<ObjectiveSpec> few = std::exchange(stage.objective.few_pairs, std::nullopt);
    if (few && pairs > 0 && pairs < kFewPairs) stage.objective = {*few, std::nullopt};
  }
  return recipe;
}

namespace {

// Puts the fields of `patch` into `into`; what it leaves out stays.
template <class T>
void patch_fields(const Json& patch, const std::string& where, T& into) {
  JsonObject object(patch, where, /*partial=*/true);
  read_fields(object, into);
  object.finish();
}

// "stages.0.objective.gamma=0.5". The value is JSON if it reads as JSON, else a string: heads.lte=true, policy=full.
void set_field(Recipe& recipe, const std::string& assignment, const std::string& where) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::usage, fmt::format("--set: got '{}', want FIELD=VALUE, e.g. heads.pooler=shared", assignment));
  }
  const std::string text = assignment.substr(equals + 1);
  std::string path = assignment.substr(0, equals);
  StageSpec* stage = nullptr;
  if (path.starts_with("stages.")) {
    const size_t dot = path.find('.', 7);
    const auto index = dot == std::string::npos ? std::nullopt : number_of<size_t>(path.substr(7, dot - 7));
    if (!index || *index >= recipe.stages.size()) {
      throw Error(Code::usage, fmt::format("--set: got '{}', want stages.N.FIELD with N from 0 to {}", assignment,
                                           recipe.stages.size() - 1));
    }
    stage = &recipe.stages[*index];
    path.erase(0, dot + 1);
  }
  Json patch = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (patch.is_discarded()) patch = text;
  for (size_t dot = path.rfind('.');; dot = path.rfind('.')) {
    patch = Json{{path.substr(dot + 1), patch}};
    if (dot == std::string::npos) break;
    path.erase(dot);
  }
  if (stage == nullptr) return patch_fields(patch, where, recipe);
  patch_fields(patch, fmt::format("{}: stages[{}]", where, stage - recipe.stages.data()), *stage);
}

}  // namespace

Recipe changed(Recipe recipe, const RecipeChanges& changes, const std::string& where) {
  try {
    patch_fields(changes.recipe, where, recipe);
    Json for_memory = Json::object();  // how many texts fit into it does not depend on the stage
    if (changes.stage.contains("batch")) for_memory["batch"] = changes.stage["batch"];
    for (StageSpec& stage : recipe.stages) {
      patch_fields(stage.flags ? changes.stage : for_memory, where, stage);
      if (!stage.flags) continue;
      ObjectiveSpec& objective = stage.objective;
      ObjectiveSpec::fields(objective, [&](const Field& field, auto& value) {
        const auto found = changes.objective.find(field.name);
        if (!field.applies || found == changes.objective.end()) return;
        JsonObject object(changes.objective, where);
        read_field(object, field, value);
      });
    }
    for (const std::string& assignment : changes.set) set_field(recipe, assignment, where);
    check_recipe(recipe, where);
  } catch (const Error& error) {  // the recipe by itself is valid, so the command line is not
    throw Error(Code::usage, error.what(), error.hint());
  }
  return recipe;
}

std::vector<std::string> named_fields(const Recipe& recipe, const RecipeChanges& changes) {
  std::vector<std::string> out;
  for (const auto& [field, value] : changes.recipe.items()) out.push_back(field);
  for (size_t i = 0; i < recipe.stages.size(); ++i) {
    const StageSpec& stage = recipe.stages[i];
    for (const auto& [field, value] : changes.stage.items()) {
      if (stage.flags || field == "batch") out.push_back(fmt::format("stages.{}.{}", i, field));
    }
    const ObjectiveSpec& objective = stage.objective;
    ObjectiveSpec::fields(objective, [&](const Field& field, const auto&) {
      if (stage.flags && field.applies && changes.objective.contains(field.name))
        out.push_back(fmt::format("stages.{}.objective.{}", i, field.name));
    });
  }
  for (const std::string& assignment : changes.set) out.push_back(assignment.substr(0, assignment.find('=')));
  return out;
}

RecipeChanges reference_preset(const std::string& task, Problem problem) {
  const std::map<std::string, double> epochs{{"RTE", 8}, {"MRPC", 6}, {"CoLA", 5}, {"STS-B", 5}, {"SST-2", 2}};
  RecipeChanges changes;
  changes.stage = {{"batch", 32},
                   {"lr", problem == Problem::regression ? 2e-5 : 5e-5},
                   {"warmup", 0.06},
                   {"weight_decay", 0.0},
                   {"clip", 1.0}};
  if (const auto found = epochs.find(task); found != epochs.end()) changes.stage["epochs"] = found->second;
  changes.set = {"compat.adamw=torch", "compat.dyn_grad=fresh"};
  return changes;
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
  std::vector<int> layers = recipe.exits.layers;
  if (recipe.exits.places != ExitPlaces::listed) {
    const int count = recipe.exits.places == ExitPlaces::all ? spec.layers : recipe.exits.count;
    if (count > spec.layers) {
      throw Error(Code::usage, fmt::format("recipe '{}': exits after the last {} layers, but the model has {}",
                                           recipe.name, count, spec.layers));
    }
    for (int i = spec.layers - count + 1; i <= spec.layers; ++i) layers.push_back(i);
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

ExitLayout layout_of(const Recipe& recipe, const ModelSpec& spec, const OutputSpec& outcome) {
  const HeadsSpec& heads = recipe.heads;
  require_groups(recipe, heads.pooler, "pooler", spec.layers);
  require_groups(recipe, heads.classifier, "classifier", spec.layers);
  ExitLayout layout{outcome};
  layout.outputs = outcome.problem == Problem::regression ? 1 : static_cast<int>(outcome.labels.size());
  layout.input = heads.input;
  layout.width = spec.hidden;
  layout.pooler = row_of(spec.family).pooler;
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
  if (layout.problem != Problem::regression || recipe.policy.starts_with("full") ||
      recipe.policy.starts_with("layer")) {
    return recipe.policy;
  }
  const double span = layout.range ? layout.range->second - layout.range->first : 1.0;
  return fmt::format("patience:3,tol={}", 0.02 * span);
}

}  // namespace exeunt
