// SPDX-License-Identifier: Apache-2.0
// The flags of verbs that run or measure models, and the notices and progress of these verbs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/engine/engine.h"
#include "exeunt/eval/measure.h"

namespace exeunt::apps {

// Notices and progress on stderr, unless --quiet.
[[nodiscard]] Observer observer(const Common& common);

enum class Takes { model, model_or_trace };

void add_run_flags(CLI::App& verb, MeasureOptions& options, Takes takes);  // MODEL and the next two
void add_text_flags(CLI::App& verb, MeasureOptions& options);              // the data, --max-length and --threads
void add_tokenizer_flag(CLI::App& verb, std::string& reader);              // --tokenizer, for a bare spiece.model
void add_length_flag(CLI::App& verb, int& max_length);
void add_threads_flag(CLI::App& verb, int& threads);
CLI::Option* add_device_flag(CLI::App& verb, Device& device);
void add_precision_flags(CLI::App& verb, MeasureOptions& options);  // --precision and --device
void add_trace_flags(CLI::App& verb, MeasureOptions& options);      // these and --trace
void add_new_rows_flag(CLI::App& verb, MeasureOptions& options);    // --strict-new
void add_profile_flag(CLI::App& verb, MeasureOptions& options);
void add_score_flags(const CommandLine& line, CLI::App& verb, MeasureOptions& options);  // --profile and more
void add_engine_flags(CLI::App& verb, EngineOptions& options);  // --precision, --device and --threads

// What a certificate is for: --max-drop, --confidence and --range; and --tries elsewhere.
struct BudgetFlags {
  std::vector<std::string> budgets;
  double confidence = 0.95;
  std::string range = {};  // "LOW,HIGH" of a regression
  int tries = 0;

  void put_into(CalibrationPlan& plan) const;  // rising budgets and the confidence. Throws Error (usage)
};
void add_confidence_flag(CLI::App& verb, double& confidence, const std::string& help);
void add_budget_flags(CLI::App& verb, BudgetFlags& flags, const std::string& max_drop_help);

// Many settings of policies.
struct SettingFlags {
  std::vector<std::string> policies;  // ranges and lists
  std::string exits;                  // layers with commas; empty = all
};
// `name` is the flag of the policy texts.
void add_setting_flags(CLI::App& verb, SettingFlags& flags, const std::string& name);
// Empty if no flag names any. Throws Error (usage).
[[nodiscard]] std::vector<PolicySpec> named_settings(const SettingFlags& flags);
// An integer from a flag; an Error that names the flag otherwise.
[[nodiscard]] int whole_number(const std::string& text, std::string_view flag);
// "6,8,12" as layers.
[[nodiscard]] std::vector<int> layer_list(const std::string& text, std::string_view flag);

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
