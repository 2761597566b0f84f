// SPDX-License-Identifier: Apache-2.0
// `exeunt sweep` and `exeunt trace` in parts, for programs that do more with the rows, or have traces from elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "exeunt/eval/sweep_model.h"

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

// `exeunt trace`: every exit's logits on a dataset, from one pass of a model.
struct TraceFlags {
  MeasureOptions run{.fp32_answers = true};
  std::string out;
};

// The flags outlive the verb.
CLI::App* add_trace_verb(CommandLine& line, TraceFlags& flags, std::vector<std::string> examples,
                         std::function<void()> run);
void write_and_report(const Common& common, const std::string& out_path, const ExitTrace& trace);

}  // namespace exeunt::apps
