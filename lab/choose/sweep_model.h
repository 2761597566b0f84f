// SPDX-License-Identifier: Apache-2.0
// Many settings of policies over one model, or over every checkpoint of a training.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exeunt/eval/measure.h"
#include "lab/choose/sweep_table.h"

namespace exeunt {

// One model under all settings.
struct Swept {
  std::string checkpoint = {};                    // "checkpoint-500", "final"; empty: the model itself
  std::string tokenizer = {};                     // folder; empty = the model's
  std::unique_ptr<const Measured> measured = {};  // must not move: the scorer's costs point to it
  std::vector<PolicySpec> policies = {};
  std::vector<SweepRow> rows = {};
  std::vector<ExitScore> exits = {};
  std::vector<bool> best = {};  // [rows] by mark_best(): no other checkpoint is better with that setting
};

using SettingsFor = std::function<std::vector<PolicySpec>(const Measured&)>;

[[nodiscard]] Swept sweep_model(const MeasureOptions& options, const SettingsFor& settings, const Observer& observer);

// Every checkpoint-N in the folder of a training run, by N, and the folder itself if it has a model. Throws Error.
[[nodiscard]] std::vector<Swept> sweep_checkpoints(const MeasureOptions& options, const SettingsFor& settings,
                                                   const Observer& observer);

// Runs the texts of the options under every setting, in turns, and notes the times in the rows. Throws Error (usage)
// for a trace without its model.
void measure_times(const MeasureOptions& options, Swept& swept, const Observer& observer);

// Over several checkpoints with the same settings, in the same order. Ties go to the first.
void mark_best(std::span<Swept> all, Metric primary);
[[nodiscard]] OrderedJson checkpoints_json(std::span<const Swept> all);

}  // namespace exeunt
