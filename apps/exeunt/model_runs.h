// SPDX-License-Identifier: Apache-2.0
// What verbs that measure share: a trace file, or a model and data to trace; the task's metrics; the model's FLOPs and
// times; and which policy it runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "exeunt/base/json.h"
#include "exeunt/eval/scores.h"
#include "exeunt/exits/trace.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/profile.h"

namespace exeunt::apps {

struct RunFlags {
  std::string model;  // a model, or where the verb takes one, a trace file
  DataFlags data;
  int max_length = 128, threads = 0;
  std::string trace;      // a trace of `model`, made before
  std::string precision;  // empty = the model's default, and whatever a trace alone has
  std::string engine = "cpu";
  std::string profile;  // empty = the model's own profile.json, if it has one
  std::string compat;
  std::string tokenizer;  // folder; empty = the model's
};

enum class Takes { model, model_or_trace };

void add_run_flags(CLI::App& verb, RunFlags& flags, Takes takes);
void add_text_flags(CLI::App& verb, RunFlags& flags);       // of these, what says which texts and how they are run
void add_precision_flags(CLI::App& verb, RunFlags& flags);  // --precision and --engine
void add_trace_flags(CLI::App& verb, RunFlags& flags);      // these and --trace
void add_score_flags(CLI::App& verb, RunFlags& flags);      // --profile and --compat

// The data of the flags; where they name none, the rows that the model's training held out.
[[nodiscard]] Dataset data_for(const Common& common, const RunFlags& flags, const Checkpoint& model);

// Runs the model over the data, with a progress bar.
[[nodiscard]] ExitTrace trace_model(const Common& common, const RunFlags& flags);

// A measured subject: its trace, and the model where there is one.
struct Measured {
  ExitTrace trace;
  std::optional<Checkpoint> model;
  std::optional<ProfileEntry> profile;
  LastHead last = LastHead::final;
};

// RunFlags::model is a trace file (it ends in .safetensors and is a file), or a model to be traced now or before.
[[nodiscard]] Measured measure(const Common& common, const RunFlags& flags);

[[nodiscard]] bool is_trace_file(const std::string& name);

// Metrics of the trace's task (or of its kind of problem), MFLOPs where the model is known, times where a profile is.
[[nodiscard]] ScorerOptions scorer_options(const Measured& measured);
[[nodiscard]] Metric primary_metric(const ExitTrace& trace);

// What a model runs by default: `text` if it is given, else the entry of its policy.json for the trace's precision,
// else full depth. A text that ends in .json names a policy file. Says which, as a notice.
struct ChosenPolicy {
  PolicySpec policy;
  std::optional<OrderedJson> certificate;
};
[[nodiscard]] ChosenPolicy choose_policy(const Common& common, const Measured& measured, const std::string& text);

// Where the policy of a model is kept; an Error where it is no folder of our own.
[[nodiscard]] std::filesystem::path policy_path(const Checkpoint& model);

// A whole number from a flag; an Error that names the flag otherwise.
[[nodiscard]] int whole_number(const std::string& text, std::string_view flag);
// "6,8,12" as layers.
[[nodiscard]] std::vector<int> layer_list(const std::string& text, std::string_view flag);

}  // namespace exeunt::apps
