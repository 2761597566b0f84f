// SPDX-License-Identifier: Apache-2.0
// What verbs that measure share: a trace file, or a model and data to trace; the task's metrics; the model's FLOPs.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "exeunt/base/json.h"
#include "exeunt/eval/scores.h"
#include "exeunt/exits/trace.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt::apps {

struct RunFlags {
  std::string model;  // a model, or where the verb takes one, a trace file
  DataFlags data;
  int max_length = 128, threads = 0;
};

enum class Required { no, yes };

void add_run_flags(CLI::App& verb, RunFlags& flags, Required required);

// Runs the model over the data, with a progress bar.
[[nodiscard]] ExitTrace trace_model(const Common& common, const RunFlags& flags);

// A measured subject: its trace, and the model where there is one.
struct Measured {
  ExitTrace trace;
  std::optional<Checkpoint> model;
};

// RunFlags::model is a trace file (it ends in .safetensors and is a file), or a model to be traced now.
[[nodiscard]] Measured measure(const Common& common, const RunFlags& flags);

[[nodiscard]] bool is_trace_file(const std::string& name);

// Metrics of the trace's task (or of its kind of problem), and MFLOPs where the model is known.
[[nodiscard]] ScorerOptions scorer_options(const Measured& measured);
[[nodiscard]] Metric primary_metric(const ExitTrace& trace);

// What a model runs by default: `text` if it is given, else the entry of its policy.json for the trace's precision,
// else full depth. Says which, as a notice.
struct ChosenPolicy {
  PolicySpec policy;
  std::optional<OrderedJson> certificate;
};
[[nodiscard]] ChosenPolicy choose_policy(const Common& common, const Measured& measured, const std::string& text);

// A whole number from a flag; an Error that names the flag otherwise.
[[nodiscard]] int whole_number(const std::string& text, std::string_view flag);

}  // namespace exeunt::apps
