// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/train_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "exeunt/base/error.h"

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

// Does a --set name such a field of a stage: "stages.0.lr=1e-4" or "stages.1.head_lr=2", but not an objective's?
bool sets(const RecipeChanges& changes, std::string_view field) {
  return std::any_of(changes.set.begin(), changes.set.end(), [&](const std::string& text) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    const bool of_stage = name.starts_with("stages.") && std::count(name.begin(), name.end(), '.') == 2;
    return name == "stages" || (of_stage && name.ends_with(field));
  });
}

// What does best in a case of the study (docs/decisions/0015-defaults-follow-the-data.md). Numbers are written as flags
// are; an empty one stays the recipe's.
struct Default {
  const char *lr, *head_lr = "", *epochs = "", *batch = "", *label_smoothing = "";
  bool prototypes = false;
};

bool narrow(const RunShape& shape) {
  return shape.hidden < kNarrow;
}
bool many_labels(const RunShape& shape) {
  return shape.labels >= kManyLabels;
}
constexpr int64_t kVeryFewRows = 1000, kFewRows = 5000;

// All but that of narrow models were measured with the recipe `exeunt` alone.
std::optional<Default> default_for(const RunShape& shape, bool exeunt) {
  const bool small = shape.hidden < kSmall && shape.layers <= kSmallLayers;
  if (!narrow(shape) && !(exeunt && small)) return std::nullopt;
  const bool few = shape.rows < kFewRows, very_few = shape.rows < kVeryFewRows;
  const bool few_texts = shape.labels > 0 && !shape.pairs && shape.rows < kSmallData;
  if (narrow(shape)) {
    Default out{.lr = "5e-4", .head_lr = "1", .epochs = "8", .prototypes = exeunt && few_texts};
    if (exeunt && many_labels(shape)) {
      out = {.lr = "1e-3", .head_lr = "1", .epochs = few ? "24" : "12", .batch = very_few ? "8" : ""};
      out.label_smoothing = "0.1";
      out.prototypes = true;
    }
    return out;
  }
  Default out{.lr = "1e-4", .prototypes = many_labels(shape) || few_texts};
  if (many_labels(shape)) {
    out.epochs = very_few ? "12" : few ? "8" : "";
    out.batch = very_few ? "8" : "";
    out.label_smoothing = "0.1";
  } else if (!few_texts) {
    const bool few_pairs = shape.labels > 0 && shape.pairs && shape.rows < kFewPairs;
    if (shape.layers > kShallow || !few_pairs) return std::nullopt;
    out.epochs = "10";
  }
  return out;
}

std::string reason(const RunShape& shape) {
  if (narrow(shape) && !many_labels(shape)) return fmt::format("a narrow model (hidden size {})", shape.hidden);
  return fmt::format("{} rows with {} labels for a small model ({} layers, hidden size {})", shape.rows, shape.labels,
                     shape.layers, shape.hidden);
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

Recipe requested_recipe(const PlanRequest& request) {
  Recipe recipe = find_recipe(request.recipe);
  if (request.time_limit > 0 && request.resume)
    throw Error(Code::usage, "--time-limit: not with --resume", "the run that is resumed has its epochs");
  (void)changed(recipe, request.changes, place_of(request, ""));
  return recipe;
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

DataDefaults defaults_for(const RunShape& shape, const std::string& recipe, const RecipeChanges& users) {
  const std::vector<std::string>& bundled = recipe_names();
  if (std::find(bundled.begin(), bundled.end(), recipe) == bundled.end()) return {};
  for (const char* rate : {"lr", "head_lr", "layer_lr"}) {
    if (users.stage.contains(rate)) return {};
  }
  if (sets(users, "lr")) return {};
  const std::optional<Default> found = default_for(shape, recipe == "exeunt");
  if (!found) return {};
  DataDefaults out{.why = reason(shape)};
  const auto change = [&](const char* field, const char* value) {
    if (*value == '\0' || users.stage.contains(field) || sets(users, field)) return;
    out.changes.stage[field] = Json::parse(value);
  };
  change("lr", found->lr);
  change("head_lr", found->head_lr);
  change("epochs", found->epochs);
  change("batch", found->batch);
  change("label_smoothing", found->label_smoothing);
  const bool classes = shape.problem != Problem::multi_label;  // prototypes are of classes
  if (found->prototypes && classes) out.changes.set = {"heads.init=prototypes"};
  return out;
}

int max_length_for(std::vector<int> lengths, int positions) {
  int length = 0;
  if (!lengths.empty()) {
    const auto whole = static_cast<size_t>(std::ceil(kWholeTexts * static_cast<double>(lengths.size())));
    const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(whole - 1);
    std::nth_element(lengths.begin(), place, lengths.end());
    length = std::min(*place, kMostLength);
  }
  const int steps = (std::max(length, kLeastLength) + kLengthStep - 1) / kLengthStep;
  return std::min(steps * kLengthStep, positions);
}

}  // namespace exeunt
