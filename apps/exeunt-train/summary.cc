// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt-train/train.h"
#include "apps/exeunt/output.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/cost.h"
#include "exeunt/train/run_files.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// "5: complaint, notice, praise …", as many names as fit a line.
std::string labels_text(const TrainingData& data) {
  constexpr size_t kColumns = 80;
  const OutputSpec& outcome = data.outcome;
  if (outcome.problem == Problem::regression) {
    return outcome.range ? fmt::format("numbers from {:g} to {:g}", outcome.range->first, outcome.range->second)
                         : "numbers";
  }
  std::string text = fmt::format("{}: ", outcome.labels.size());
  for (size_t i = 0; i < outcome.labels.size(); ++i) {
    if (i > 0 && width_of(text) + width_of(outcome.labels[i]) > kColumns) return text + " …";
    text += (i > 0 ? ", " : "") + outcome.labels[i];
  }
  const bool f1 = std::find(data.metrics.begin(), data.metrics.end(), Metric::f1) != data.metrics.end();
  const auto positive = static_cast<size_t>(ScorerOptions{}.positive);
  if (f1 && positive < outcome.labels.size()) text += fmt::format("; f1 is of '{}'", outcome.labels[positive]);
  return text;
}

std::string texts_text(const Features& rows) {
  std::vector<size_t> lengths(rows.rows());
  for (size_t row = 0; row < lengths.size(); ++row) lengths[row] = rows.length(row);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return fmt::format("{} tokens in the median, {} at most; max-length {}", *middle,
                     *std::max_element(middle, lengths.end()), rows.info.max_length);
}

std::string exits_text(const ExitLayout& layout) {
  std::vector<int> layers;
  for (const ExitSite& site : layout.sites) layers.push_back(site.after);
  if (layers.size() == 1) return fmt::format("after layer {}", layers.front());
  const bool in_a_row = layers.back() - layers.front() + 1 == static_cast<int>(layers.size());
  if (in_a_row) return fmt::format("after layers {} to {}", layers.front(), layers.back());
  return fmt::format("after layers {}", fmt::join(layers, ", "));
}

// "216 steps of 32 texts, 3 epochs, early exits only".
std::string stage_text(const StageSpec& stage, const StagePlan& plan, int accumulation) {
  const double epochs =
      static_cast<double>(plan.steps * accumulation) / static_cast<double>(std::max<int64_t>(1, plan.batches));
  std::string text =
      fmt::format("{} step{} of {} texts", plan.steps, plan.steps == 1 ? "" : "s", stage.batch * accumulation);
  if (accumulation > 1) text += fmt::format(" ({} times {})", accumulation, stage.batch);
  text += fmt::format(", {:.3g} epoch{}", epochs, epochs == 1 ? "" : "s");
  if (stage.train == Trainable::backbone) text += ", without the early exits";
  if (stage.train == Trainable::exits) text += ", early exits only";
  return text;
}

std::string value_text(const OrderedJson& value) {
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A field, and its values in the stages that have it; a field of the whole recipe has one.
struct FieldValues {
  std::string field;
  std::vector<std::pair<size_t, const PlannedValue*>> stages = {};  // number from 1, or 0
};

std::vector<FieldValues> by_field(const TrainPlan& plan) {
  std::vector<FieldValues> out;
  for (const PlannedValue& value : plan.values) {
    std::string field = value.name;
    size_t stage = 0;
    if (constexpr std::string_view kStages = "stages."; field.starts_with(kStages)) {
      const size_t dot = field.find('.', kStages.size());
      stage = std::stoul(field.substr(kStages.size(), dot - kStages.size())) + 1;
      field.erase(0, dot + 1);
    }
    auto place = std::find_if(out.begin(), out.end(), [&](const FieldValues& one) { return one.field == field; });
    if (place == out.end()) place = out.insert(out.end(), {.field = field});
    place->stages.emplace_back(stage, &value);
  }
  return out;
}

// "lr 0.0005 (stage 1), epochs 8": what one source decided.
std::string values_text(const TrainPlan& plan, ValueSource source) {
  std::vector<std::string> texts;
  for (const FieldValues& one : by_field(plan)) {
    const PlannedValue& first = *one.stages.front().second;
    const bool same = std::all_of(one.stages.begin(), one.stages.end(), [&](const auto& stage) {
      return stage.second->source == first.source && stage.second->value == first.value;
    });
    for (const auto& [stage, value] : one.stages) {
      if (value->source != source) continue;
      texts.push_back(fmt::format("{} {}", one.field, value_text(value->value)));
      if (same) break;
      texts.back() += fmt::format(" (stage {})", stage);
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string device_text(const RunStart& start, const std::string& asked) {
  std::string text = start.device;
  if (text == "cpu") text += fmt::format(", {} thread{}", start.threads, start.threads == 1 ? "" : "s");
  if (start.processes > 1) text += fmt::format(", {} processes", start.processes);
  const std::string_view by_default = asked == "auto" && start.precision == "bf16" ? " (--precision fp32: slower)" : "";
  text = fmt::format("{}, {}{}, LibTorch {}", text, start.precision, by_default, start.torch);
  if (start.deterministic_cost)
    text += fmt::format("; repeats bit for bit, which takes {:.2f} times as long", *start.deterministic_cost);
  return text;
}

}  // namespace

std::string split_text(const LoadedData& loaded) {
  std::string text = fmt::format("{} train", loaded.data.train.rows());
  if (loaded.data.eval.rows() > 0) text += fmt::format(", {} validation", loaded.data.eval.rows());
  if (loaded.held_out_rows > 0) text += fmt::format(", {} certification ({})", loaded.held_out_rows, kHeldOutFile);
  return text;
}

NamesAndTexts value_rows(const TrainPlan& plan) {
  NamesAndTexts rows;
  for (size_t i = kValueSources.size(); i-- > 0;) {
    const auto source = static_cast<ValueSource>(i);
    const std::string text = source == ValueSource::data_default ? data_defaults_text(plan) : values_text(plan, source);
    if (text.empty()) continue;
    rows.emplace_back(rows.empty() ? "values" : "", source == ValueSource::data_default
                                                        ? text + "; --as-written keeps the recipe's own"
                                                        : fmt::format("{}: {}", word_of(source), text));
  }
  return rows;
}

std::string data_defaults_text(const TrainPlan& plan) {
  const std::string text = values_text(plan, ValueSource::data_default);
  return text.empty() ? text : fmt::format("data default for {}: {}", plan.data_default, text);
}

NamesAndTexts summary_of(const TrainJob& job, const TrainPlan& plan, const RunStart& start) {
  const ModelSpec& spec = job.model.spec();
  NamesAndTexts rows{{"model", fmt::format("{}: {}, {} layers, hidden size {}, {} parameters", job.model_name,
                                           name_of(spec.family), spec.layers, spec.hidden,
                                           short_count(static_cast<double>(count_parameters(job.model).total())))},
                     {"data", fmt::format("{}: {}", job.data_name, split_text(job.loaded))},
                     {"texts", texts_text(job.loaded.data.train)},
                     {"labels", labels_text(job.loaded.data)},
                     {"recipe", fmt::format("{}, exits {}", plan.recipe.name, exits_text(start.exits))}};
  const auto run =
      std::count_if(start.stages.begin(), start.stages.end(), [](const auto& stage) { return stage.steps > 0; });
  for (size_t i = 0; i < start.stages.size(); ++i) {
    if (run > 0 && start.stages[i].steps == 0) continue;
    rows.emplace_back(run <= 1 ? "training" : fmt::format("stage {}", i + 1),
                      stage_text(plan.recipe.stages[i], start.stages[i], plan.accumulation));
  }
  for (auto& row : value_rows(plan)) rows.push_back(std::move(row));
  rows.emplace_back("device", device_text(start, plan.precision));
  if (start.seconds) rows.emplace_back("time", fmt::format("about {} on this machine", duration_text(*start.seconds)));
  rows.emplace_back("output", fmt::format("{}; all settings are in {}", job.out, kRunFile));
  return rows;
}

}  // namespace exeunt::apps
