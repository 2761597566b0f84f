// SPDX-License-Identifier: Apache-2.0
// `exeunt sweep`: its flags of every use, and its tables.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "lab/choose/sweep_model.h"

namespace exeunt::apps {

// `exeunt sweep`: quality and cost of many policies from one forward pass, for one model or every checkpoint of a
// training.
struct SweepFlags {
  MeasureOptions run{.fp32_answers = true};
  std::string csv;
  bool all_checkpoints = false, measure = false;
};

// Adds the verb without the flags that name policies. The flags outlive the verb.
CLI::App* add_sweep_verb(CommandLine& line, SweepFlags& flags, std::function<void()> run);

// One result, or one for each checkpoint. Throws Error.
[[nodiscard]] std::vector<Swept> run_sweep(const Common& common, const SweepFlags& flags, const SettingsFor& settings);

[[nodiscard]] OrderedJson swept_json(const Swept& swept);
void print_rows(const Swept& swept);
void show_checkpoints(const Common& common, const SweepFlags& flags, std::vector<Swept> all);

}  // namespace exeunt::apps
