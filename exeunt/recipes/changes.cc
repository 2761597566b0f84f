// SPDX-License-Identifier: Apache-2.0
// What the command line and presets change in a recipe.
#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/recipes/recipe.h"

namespace exeunt {
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
    size_t index = 0;
    const char* end = path.data() + path.size();
    const auto [stop, error] = std::from_chars(path.data() + 7, end, index);
    if (error != std::errc{} || stop == end || *stop != '.' || index >= recipe.stages.size()) {
      throw Error(Code::usage, fmt::format("--set: got '{}', want stages.N.FIELD with N from 0 to {}", assignment,
                                           recipe.stages.size() - 1));
    }
    stage = &recipe.stages[index];
    path.erase(0, static_cast<size_t>(stop - path.data()) + 1);
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

// Does a --set name such a field of a stage: "stages.0.lr=1e-4" or "stages.1.head_lr=2", but not an objective's?
bool sets(const RecipeChanges& changes, std::string_view field) {
  return std::any_of(changes.set.begin(), changes.set.end(), [&](const std::string& text) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    const bool of_stage = name.starts_with("stages.") && std::count(name.begin(), name.end(), '.') == 2;
    return name == "stages" || (of_stage && name.ends_with(field));
  });
}

}  // namespace

Recipe changed(Recipe recipe, const RecipeChanges& changes, const std::string& where) {
  try {
    patch_fields(changes.recipe, where, recipe);
    for (StageSpec& stage : recipe.stages) {
      if (!stage.flags) continue;
      patch_fields(changes.stage, where, stage);
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

void apply_reference_preset(RecipeChanges& changes, const std::string& task, bool regression) {
  const std::map<std::string, double> epochs{{"RTE", 8}, {"MRPC", 6}, {"CoLA", 5}, {"STS-B", 5}, {"SST-2", 2}};
  Json stage{{"batch", 32}, {"lr", regression ? 2e-5 : 5e-5}, {"warmup", 0.06}, {"weight_decay", 0.0}, {"clip", 1.0}};
  if (const auto found = epochs.find(task); found != epochs.end()) stage["epochs"] = found->second;
  stage.update(changes.stage);
  changes.stage = stage;
  changes.set.insert(changes.set.begin(), {"compat.adamw=torch", "compat.dyn_grad=fresh"});
}

namespace {

// A case of the study (docs/decisions/0015-defaults-follow-the-data.md) and what does best there. Numbers are written
// as flags are; an empty one stays the recipe's.
struct Default {
  bool (*holds)(const RunShape& shape);
  bool exeunt_only;  // measured with the recipe `exeunt` alone
  const char *lr, *head_lr, *epochs, *label_smoothing;
  bool prototypes;
};

bool narrow(const RunShape& shape) {
  return shape.hidden < kNarrow;
}
bool small(const RunShape& shape) {
  return !narrow(shape) && shape.hidden < kSmall && shape.layers <= kSmallLayers;
}
bool many(const RunShape& shape) {
  return shape.labels >= kManyLabels;
}
constexpr int64_t kVeryFewRows = 1000, kFewRows = 5000;

// The first that holds.
constexpr Default kDefaults[] = {
    {[](const RunShape& s) { return narrow(s) && many(s) && s.rows < kFewRows; }, true, "1e-3", "1", "24", "0.1", true},
    {[](const RunShape& s) { return narrow(s) && many(s); }, true, "1e-3", "1", "12", "0.1", true},
    {narrow, false, "5e-4", "1", "8", "", false},
    {[](const RunShape& s) { return small(s) && many(s) && s.rows < kVeryFewRows; }, true, "1e-4", "", "12", "0.1",
     true},
    {[](const RunShape& s) { return small(s) && many(s) && s.rows < kFewRows; }, true, "1e-4", "", "8", "0.1", true},
    {[](const RunShape& s) { return small(s) && many(s); }, true, "1e-4", "", "", "0.1", true},
    {[](const RunShape& s) { return small(s) && s.labels > 0 && !s.pairs && s.rows < kSmallData; }, true, "1e-4", "",
     "", "", true},
    {[](const RunShape& s) {
       return small(s) && s.layers <= kShallow && s.labels > 0 && s.pairs && s.rows < kFewPairs;
     },
     true, "1e-4", "", "10", "", false},
};

std::string reason(const RunShape& shape) {
  if (narrow(shape) && !many(shape)) return fmt::format("a narrow model (hidden size {})", shape.hidden);
  return fmt::format("{} rows with {} labels for a small model ({} layers, hidden size {})", shape.rows, shape.labels,
                     shape.layers, shape.hidden);
}

}  // namespace

Adapted adapt_to_shape(RecipeChanges& changes, const std::string& recipe, const RunShape& shape) {
  const std::vector<std::string>& bundled = recipe_names();
  if (std::find(bundled.begin(), bundled.end(), recipe) == bundled.end()) return {};
  for (const char* rate : {"lr", "head_lr", "layer_lr"}) {
    if (changes.stage.contains(rate)) return {};
  }
  if (sets(changes, "lr")) return {};
  const auto found = std::find_if(std::begin(kDefaults), std::end(kDefaults), [&](const Default& one) {
    return one.holds(shape) && (!one.exeunt_only || recipe == "exeunt");
  });
  if (found == std::end(kDefaults)) return {};
  Adapted out{.why = reason(shape)};
  const auto add = [&](const std::string& flag) { out.flags += (out.flags.empty() ? "" : " ") + flag; };
  const auto change = [&](const char* field, const char* flag, const char* value) {
    if (*value == '\0' || changes.stage.contains(field) || sets(changes, field)) return;
    changes.stage[field] = Json::parse(value);
    add(fmt::format("{} {}", flag, value));
  };
  change("lr", "--lr", found->lr);
  change("head_lr", "--head-lr", found->head_lr);
  change("epochs", "--epochs", found->epochs);
  change("label_smoothing", "--label-smoothing", found->label_smoothing);
  if (found->prototypes) {
    const std::string start = "heads.init=prototypes";
    changes.set.insert(changes.set.begin(), start);  // what the user sets comes later and wins
    add("--set " + start);
  }
  return out;
}

}  // namespace exeunt
