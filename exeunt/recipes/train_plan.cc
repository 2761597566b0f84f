// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/train_plan.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/recipes/defaults.h"

namespace exeunt {
namespace {

using Sources = std::map<std::string, ValueSource>;

std::string place_of(const PlanRequest& request, const std::string& task) {
  return fmt::format("recipe {}{}{} with these flags", request.recipe, task.empty() ? "" : " on ", task);
}

// Lowers the epochs to what the time limit allows.
void fit_into_time(const PlanRequest& request, TrainPlan& plan, Sources& sources) {
  constexpr double kTraining = 0.9;  // reading, evaluating and writing take the rest
  const double seconds = request.seconds(plan), limit = kTraining * request.time_limit;
  plan.seconds = seconds;
  if (request.time_limit == 0 || seconds <= limit) return;
  const double share = limit / seconds;
  double epochs = 0;
  for (size_t i = 0; i < plan.recipe.stages.size(); ++i) {
    CaseNumber& number = plan.recipe.stages[i].epochs;
    number.value *= share;
    epochs += number.value;
    sources[fmt::format("stages.{}.epochs", i)] = ValueSource::time_limit;
  }
  plan.max_steps = static_cast<int64_t>(static_cast<double>(plan.max_steps) * share);
  plan.seconds = limit;
  plan.notices.push_back(fmt::format("--time-limit: {:.1f} epochs instead of {:.1f}, which would take about {}", epochs,
                                     epochs / share, duration_text(seconds)));
}

// Of the field itself, of what it is part of, or of its cases: --set heads={…}, --set stages.0.epochs.roberta=4.
ValueSource source_of(const Sources& sources, const std::string& name) {
  ValueSource out = ValueSource::recipe;
  for (const auto& [named, source] : sources) {
    if (named == name || name.starts_with(named + ".") || named.starts_with(name + ".")) out = std::max(out, source);
  }
  return out;
}

bool always_listed(const std::string& name) {
  if (name == "seed") return true;
  const size_t dot = name.rfind('.');
  if (!name.starts_with("stages.") || dot == std::string::npos || name.find(".objective.") != std::string::npos)
    return false;
  const std::string_view field = std::string_view(name).substr(dot + 1);
  return field == "lr" || field == "head_lr" || field == "epochs" || field == "batch" || field == "warmup";
}

std::vector<PlannedValue> list_values(const TrainPlan& plan, const Sources& sources) {
  std::vector<PlannedValue> out;
  const OrderedJson fields = fields_json(plan.recipe).flatten();
  for (const auto& [path, value] : fields.items()) {
    std::string name = path.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    const ValueSource source = source_of(sources, name);
    if (source != ValueSource::recipe || always_listed(name)) out.push_back({std::move(name), value, source});
  }
  const OrderedJson settings = fields_json<TrainSettings>(plan, kShapesWeights);
  const OrderedJson defaults = fields_json(TrainSettings{}, kShapesWeights);
  for (const auto& [name, value] : settings.items()) {
    if (value != defaults.at(name)) out.push_back({name, value, ValueSource::flag});
  }
  return out;
}

}  // namespace

TrainPlan resolve_plan(const Recipe& recipe, const PlanRequest& request, const ModelSpec& model,
                       const TrainingFacts& data) {
  TrainPlan plan;
  static_cast<TrainSettings&>(plan) = request;
  plan.recipe = recipe_for(recipe, data.task, data.pairs);
  Sources sources;
  const auto apply = [&](ValueSource source, const RecipeChanges& changes) {
    plan.recipe = changed(std::move(plan.recipe), changes, place_of(request, data.task));
    for (const std::string& name : named_fields(plan.recipe, changes)) sources[name] = source;
  };
  if (!request.preset.empty()) {
    apply(ValueSource::preset, reference_preset(data.task, data.problem));
    plan.whole_warmup = true;
  } else if (!request.as_written) {
    const DataDefaults defaults = defaults_for({.hidden = model.hidden,
                                                .layers = model.layers,
                                                .labels = data.labels,
                                                .rows = data.rows,
                                                .pairs = data.pairs > 0 || data.of_pairs,
                                                .problem = data.problem},
                                               request.recipe, request.changes);
    apply(ValueSource::data_default, defaults.changes);
    plan.data_default = defaults.why;
  }
  apply(ValueSource::model_config, {.set = request.model_config});
  apply(ValueSource::flag, request.changes);
  const TrainingCase which{.family = model.family, .rows = data.rows, .problem = data.problem};
  for (StageSpec& stage : plan.recipe.stages) {
    stage.lr = {.value = number_for(stage.lr, which)};
    stage.epochs = {.value = number_for(stage.epochs, which)};
  }
  if (request.seconds) fit_into_time(request, plan, sources);
  plan.values = list_values(plan, sources);
  return plan;
}

void require_valid(const Recipe& recipe, const PlanRequest& request) {
  if (request.time_limit > 0 && request.resume)
    throw Error(Code::usage, "--time-limit: not with --resume", "the run that is resumed has its epochs");
  (void)changed(recipe, request.changes, place_of(request, ""));
}

OrderedJson values_json(const TrainPlan& plan) {
  OrderedJson out = OrderedJson::object();
  for (const PlannedValue& one : plan.values) out[one.name] = {{"value", one.value}, {"source", word_of(one.source)}};
  return out;
}

std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace exeunt
