// SPDX-License-Identifier: Apache-2.0
// Many settings of policies over one model, or over every checkpoint of a training; and ELUE's score of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/eval/elue.h"
#include "exeunt/eval/sweep_table.h"
#include "exeunt/flows/measure.h"

namespace exeunt {

// One model under all settings.
struct Swept {
  std::string checkpoint = {};                    // "checkpoint-500", "final"; empty: the model itself
  std::unique_ptr<const Measured> measured = {};  // must not move: the scorer's costs point to it
  std::vector<PolicySpec> policies = {};
  std::vector<SweepRow> rows = {};
  std::vector<ExitScore> exits = {};
};

using SettingsFor = std::function<std::vector<PolicySpec>(const ExitTrace&)>;

[[nodiscard]] Swept sweep_model(const MeasureOptions& options, const SettingsFor& settings, const Observer& observer);

// Every checkpoint-N in the folder of a training run, by N, and the folder itself if it has a model. Throws Error.
[[nodiscard]] std::vector<Swept> sweep_checkpoints(const MeasureOptions& options, const SettingsFor& settings,
                                                   const Observer& observer);

struct ElueOutcome {
  std::string task = {};
  std::optional<ElueScore> score = {};  // nothing without a baseline for the task
  std::string source = {};              // of the baseline; empty = there is none for models of this shape
};

// ELUE's score of the rows against static models: those of the file `baseline`, or the shipped ones of the same shape
// if it is empty. Throws Error.
[[nodiscard]] ElueOutcome elue_outcome(const Swept& swept, const std::string& baseline);

// "SST-2" of "elue/SST-2".
[[nodiscard]] std::string plain_task(const ExitTrace& trace);

}  // namespace exeunt
