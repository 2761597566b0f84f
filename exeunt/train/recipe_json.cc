// SPDX-License-Identifier: Apache-2.0
// Recipes on their way out, and the list of those that are shipped.
#include <fmt/format.h>

#include "exeunt/train/recipe.h"
#include "exeunt/train/recipe_names.h"

namespace exeunt {
namespace {

std::string sharing_text(const SharingSpec& sharing) {
  return sharing.kind == Sharing::groups ? fmt::format("groups:{}", sharing.groups)
                                         : std::string(word_of(sharing.kind));
}

OrderedJson objective_json(const ObjectiveSpec& objective) {
  OrderedJson out;
  out["kind"] = word_of(objective.kind);
  switch (objective.kind) {
    case ObjectiveKind::limit:
      out["layer"] = objective.layer;
      break;
    case ObjectiveKind::learned:
      out["init"] = objective.init;
      out["lr"] = objective.lr;
      out["floor"] = objective.floor;
      break;
    case ObjectiveKind::distill:
    case ObjectiveKind::distill_early:
      out["gamma"] = objective.gamma;
      out["temperature"] = objective.temperature;
      out["variant"] = word_of(objective.variant);
      if (objective.variant == DistillVariant::ema) out["momentum"] = objective.momentum;
      if (objective.variant == DistillVariant::group) {
        out["beta"] = objective.beta;
        out["range"] = objective.range;
      }
      break;
    default:
      break;
  }
  return out;
}

OrderedJson case_json(const CaseNumber& number) {
  if (!number.roberta && !number.small && !number.regression) return number.value;
  OrderedJson out;
  out["default"] = number.value;
  if (number.roberta) out["roberta"] = *number.roberta;
  if (number.small) out["small"] = *number.small;
  if (number.regression) out["regression"] = *number.regression;
  return out;
}

OrderedJson stage_json(const StageSpec& stage) {
  OrderedJson out;
  out["objective"] = objective_json(stage.objective);
  out["train"] = word_of(stage.train);
  out["eval_every"] = stage.eval_every;
  out["early_stop"] = stage.early_stop ? OrderedJson(*stage.early_stop) : OrderedJson(nullptr);
  out["epochs"] = case_json(stage.epochs);
  out["lr"] = case_json(stage.lr);
  out["head_lr"] = stage.head_lr;
  out["layer_lr"] = stage.layer_lr;
  out["weight_decay"] = stage.weight_decay;
  out["warmup"] = stage.warmup;
  out["batch"] = stage.batch;
  out["clip"] = stage.clip;
  out["keep_best"] = stage.keep_best == KeepBest::none ? OrderedJson(nullptr) : OrderedJson(word_of(stage.keep_best));
  return out;
}

}  // namespace

OrderedJson recipe_json(const Recipe& recipe) {
  OrderedJson out;
  out["format"] = "exeunt.recipe/1";
  out["name"] = recipe.name;
  const HeadsSpec& heads = recipe.heads;
  OrderedJson& head = out["heads"];
  head["reader"] = sharing_text(heads.reader);
  head["pooler"] = sharing_text(heads.pooler);
  head["classifier"] = sharing_text(heads.classifier);
  head["pool_input"] = name_of(heads.input);
  head["inner"] = heads.inner ? OrderedJson(*heads.inner) : OrderedJson(nullptr);
  head["lte"] = heads.lte;
  head["init"] = word_of(heads.init);
  out["exits"] = recipe.places == ExitPlaces::all    ? OrderedJson("all")
                 : recipe.places == ExitPlaces::last ? OrderedJson("last")
                                                     : OrderedJson(recipe.layers);
  out["gradient"]["rule"] = word_of(recipe.gradient);
  out["gradient"]["anchor"] = word_of(recipe.anchor);
  out["stages"] = OrderedJson::array();
  for (const StageSpec& stage : recipe.stages) out["stages"].push_back(stage_json(stage));
  out["policy"] = recipe.policy;
  out["seed"] = recipe.seed;
  OrderedJson& compat = out["compat"];
  compat["clip_scope"] = word_of(recipe.compat.clip_scope);
  compat["kd_kl_reduction"] = word_of(recipe.compat.kd_kl_reduction);
  compat["gr_exclude_last"] = word_of(recipe.compat.gr_exclude_last);
  compat["dyn_grad"] = word_of(recipe.compat.dyn_grad);
  compat["adamw"] = word_of(recipe.compat.adamw);
  return out;
}

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> names{
      "berxit",       "deebert", "deebert-sd", "elasticbert", "elasticbert-static", "elbert",
      "elbert-equal", "exeunt",  "pabee",      "plain",       "romebert",           "romebert-sd"};
  return names;
}

}  // namespace exeunt
