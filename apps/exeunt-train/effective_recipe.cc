// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/effective_recipe.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/train/recipe.h"

namespace exeunt::apps {
namespace {

// A value as JSON if it reads as JSON, else as a string: --set heads.lte=true, --set policy=full.
Json value_of(const std::string& text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

// "stages.0.objective.gamma=0.5". What the path names need not exist: reading the recipe judges the result.
void set_field(Json& recipe, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::usage, fmt::format("--set: got '{}', want FIELD=VALUE, e.g. heads.pooler=shared", assignment));
  }
  std::string pointer = "/";
  for (const char c : assignment.substr(0, equals)) pointer += c == '.' ? std::string("/") : std::string(1, c);
  try {
    recipe[Json::json_pointer(pointer)] = value_of(assignment.substr(equals + 1));
  } catch (const Json::exception&) {
    throw Error(Code::usage, fmt::format("--set: the recipe has no place '{}'", assignment.substr(0, equals)));
  }
}

}  // namespace

void apply_preset(TrainFlags& flags, const std::string& task, bool regression) {
  if (flags.preset.empty()) return;
  static const std::map<std::string, double> epochs{{"RTE", 8}, {"MRPC", 6}, {"CoLA", 5}, {"STS-B", 5}, {"SST-2", 2}};
  const auto found = epochs.find(task);
  const auto or_else = [](auto& flag, auto value) {
    if (!flag) flag = value;
  };
  if (found != epochs.end()) or_else(flags.epochs, found->second);
  or_else(flags.batch, 32);
  or_else(flags.lr, regression ? 2e-5 : 5e-5);
  or_else(flags.warmup, 0.06);
  or_else(flags.weight_decay, 0.0);
  or_else(flags.clip, 1.0);
  flags.set.insert(flags.set.begin(), {"compat.adamw=torch", "compat.dyn_grad=fresh"});
}

Json effective_recipe(const TrainFlags& flags, const std::string& task, int64_t pairs) {
  Json recipe = find_recipe(flags.recipe);
  const std::string where =
      fmt::format("recipe {}{}{} with these flags", flags.recipe, task.empty() ? "" : " on ", task);
  (void)parse_recipe(recipe, flags.recipe);  // judged before flags touch it, so that errors name the file's own slips
  recipe = recipe_for(std::move(recipe), pairs);
  for (Json& stage : recipe["stages"]) {
    const auto put = [&](const char* name, const auto& flag) {
      if (flag) stage[name] = *flag;
    };
    put("lr", flags.lr);
    put("head_lr", flags.head_lr);
    put("layer_lr", flags.layer_lr);
    put("epochs", flags.epochs);
    put("batch", flags.batch);
    put("weight_decay", flags.weight_decay);
    put("warmup", flags.warmup);
    put("clip", flags.clip);
    put("eval_every", flags.eval_every);
    put("early_stop", flags.early_stop);
    put("keep_best", flags.keep_best);
    Json& objective = stage["objective"];
    const std::string kind = objective["kind"];
    if (flags.temperature && kind.starts_with("distill")) objective["temperature"] = *flags.temperature;
    if (flags.learned_lr && kind == "learned") objective["lr"] = *flags.learned_lr;
    if (flags.learned_init && kind == "learned") objective["init"] = *flags.learned_init;
  }
  for (const std::string& assignment : flags.set) set_field(recipe, assignment);
  try {
    (void)parse_recipe(recipe, where);
  } catch (const Error& error) {  // the recipe alone was in order, so the command line is not
    throw Error(Code::usage, error.what(), error.hint());
  }
  return recipe;
}

}  // namespace exeunt::apps
