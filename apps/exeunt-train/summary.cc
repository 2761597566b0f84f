// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/summary.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt/output.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/cost.h"
#include "exeunt/train/run_files.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

std::string data_text(const TrainFlags& flags) {
  std::string text = flags.train_features.empty() ? flags.data : flags.train_features;
  if (!flags.task.empty()) text = fmt::format("{} in {}", flags.task, text);
  const std::string& eval = flags.train_features.empty() ? flags.eval_data : flags.eval_features;
  return eval.empty() ? text : fmt::format("{}, evaluated on {}", text, eval);
}

// "5: complaint, notice, praise …", as many names as fit a line.
std::string labels_text(const TrainingData& data) {
  constexpr size_t kRoom = 80;
  const OutputSpec& outcome = data.outcome;
  if (outcome.problem == Problem::regression) {
    return outcome.range ? fmt::format("numbers from {:g} to {:g}", outcome.range->first, outcome.range->second)
                         : "numbers";
  }
  std::string text = fmt::format("{}: ", outcome.labels.size());
  for (size_t i = 0; i < outcome.labels.size(); ++i) {
    if (i > 0 && width_of(text) + width_of(outcome.labels[i]) > kRoom) return text + " …";
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

// "3 epochs: 216 steps of 32 texts, learning rate 5e-05, heads 5 times that".
std::string stage_text(const StageSpec& stage, const StagePlan& plan, int accumulation) {
  const double epochs =
      static_cast<double>(plan.steps * accumulation) / static_cast<double>(std::max<int64_t>(1, plan.batches));
  std::string text = fmt::format("{:.3g} epoch{}: {} step{} of {} texts", epochs, epochs == 1 ? "" : "s", plan.steps,
                                 plan.steps == 1 ? "" : "s", stage.batch * accumulation);
  if (accumulation > 1) text += fmt::format(" ({} times {})", accumulation, stage.batch);
  text += fmt::format(", learning rate {:g}", plan.lr);
  if (stage.head_lr != 1 && stage.train != Trainable::backbone) {
    text += fmt::format(", heads {:g} times that", stage.head_lr);
  }
  if (stage.train == Trainable::backbone) text += ", without the early exits";
  if (stage.train == Trainable::exits) text += ", early exits only";
  return text;
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

std::string rows_text(const LoadedData& loaded) {
  std::string text = fmt::format("{} to train on", loaded.data.train.rows());
  if (loaded.data.eval.rows() > 0) text += fmt::format(", {} to evaluate on", loaded.data.eval.rows());
  if (loaded.held_out_rows > 0) {
    text += fmt::format(", {} for 'exeunt calibrate' ({})", loaded.held_out_rows, kHeldOutFile);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> summary_of(const Summarized& what, const RunStart& start) {
  const ModelSpec& spec = what.model.spec();
  const Recipe& recipe = what.options.recipe;
  std::vector<std::pair<std::string, std::string>> rows{
      {"model", what.flags.model},
      {"", fmt::format("{}, {} layers, hidden size {}, {} parameters", name_of(spec.family), spec.layers, spec.hidden,
                       short_count(static_cast<double>(count_parameters(what.model).total())))},
      {"data", data_text(what.flags)},
      {"rows", rows_text(what.loaded)},
      {"texts", texts_text(what.loaded.data.train)},
      {"labels", labels_text(what.loaded.data)},
      {"recipe", fmt::format("{}, seed {}", recipe.name, recipe.seed)},
      {"exits", exits_text(start.exits)}};
  const auto run =
      std::count_if(start.stages.begin(), start.stages.end(), [](const auto& plan) { return plan.steps > 0; });
  for (size_t i = 0; i < start.stages.size(); ++i) {
    if (run > 0 && start.stages[i].steps == 0) continue;
    rows.emplace_back(run <= 1 ? "training" : fmt::format("stage {}", i + 1),
                      stage_text(recipe.stages[i], start.stages[i], what.options.accumulation));
  }
  rows.emplace_back("device", device_text(start, what.options.precision));
  if (start.seconds) rows.emplace_back("time", fmt::format("about {} on this machine", duration_text(*start.seconds)));
  rows.emplace_back("output", fmt::format("{}; all settings are in {}", what.flags.out, kRunFile));
  return rows;
}

std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace exeunt::apps
