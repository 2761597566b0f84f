// SPDX-License-Identifier: Apache-2.0
// What the command line and presets change in a recipe.
#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
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

}  // namespace exeunt
