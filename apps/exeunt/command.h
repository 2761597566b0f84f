// SPDX-License-Identifier: Apache-2.0
// What all verbs share: how they are added to the command line, and their common flags.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "exeunt/model/checkpoint.h"

namespace exeunt {
struct MeasureOptions;
struct PolicyEntry;
struct PolicySpec;
}  // namespace exeunt

namespace exeunt::apps {

// Flags that every verb takes.
struct Common {
  bool json = false;     // results as JSON on stdout
  bool quiet = false;    // no notices and no progress on stderr
  bool verbose = false;  // tables and details before the summary, where a verb has any
};

// What a program that contains the verbs of the command adds to them.
struct Extensions {
  TensorFlowReader read_tensorflow = nullptr;                              // for `info` and `convert`
  void (*add_score_flags)(CLI::App& verb, MeasureOptions& run) = nullptr;  // to verbs that measure quality
  // The policy of `policy set MODEL KEY=VALUE…`, and how its help explains these words.
  PolicySpec (*policy_of_keys)(const std::vector<std::string>& words, const Checkpoint& model,
                               const PolicyEntry* entry) = nullptr;
  const char* keys_help = "";
  // `data check` of a folder: prints the report if it is a benchmark's, else returns false.
  bool (*check_folder)(const Common& common, const std::string& folder) = nullptr;
};

// The command line as declared so far, and what to run once it has been parsed. Parsing only fills the verbs' options:
// work starts when run_program() calls `chosen`, so that a usage error never leaves partial work behind.
struct CommandLine {
  CLI::App& app;
  Common& common;
  std::function<void()>& chosen;
  Extensions more = {};
  char** argv = nullptr;  // of main(), where the program may become the lab
};

// Adds the verb `name` with its options. `examples` are shown at the end of its --help. `run` is called if it is
// chosen.
CLI::App* add_verb(CommandLine& line, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples, std::function<void()> run);

void add_verbose_flag(CommandLine& line, CLI::App& verb);

// "a, b or c"
[[nodiscard]] std::string alternatives(const std::vector<std::string>& words);

// Checks of a flag's value. Their messages are ours, "got 'x', want a or b", with a hint on a second line.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& choices);
[[nodiscard]] CLI::Validator number_in(double low, double high, bool open = false);  // open: more than `low`
[[nodiscard]] inline CLI::Validator positive() {
  return number_in(0, HUGE_VAL, true);
}

// Options that are added while it lives belong to this group of the verb's help.
class OptionGroup {
 public:
  OptionGroup(CLI::App& verb, const std::string& title)
      : defaults_(*verb.option_defaults()), before_(defaults_.get_group()) {
    defaults_.group(title);
  }
  ~OptionGroup() { defaults_.group(before_); }
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::OptionDefaults& defaults_;
  std::string before_;
};

// One function per verb, each in its own file.
void add_attach(CommandLine& line);
void add_train(CommandLine& line);  // this one and the next are the trainer's: the command explains and completes them
void add_launch(CommandLine& line);
void add_info(CommandLine& line);
void add_convert(CommandLine& line);
void add_export(CommandLine& line);
void add_tokenize(CommandLine& line);
void add_data(CommandLine& line);
void add_prepare(CommandLine& line);
void add_trace(CommandLine& line);
void add_eval(CommandLine& line);
void add_calibrate(CommandLine& line);
void add_policy(CommandLine& line);
void add_predict(CommandLine& line);
void add_merge(CommandLine& line);
void add_serve(CommandLine& line);
void add_bench(CommandLine& line);
void add_quantize(CommandLine& line);
void add_doctor(CommandLine& line);
void add_help(CommandLine& line);
void add_completion(CommandLine& line);

// Declares all verbs on `line`.
void add_all_verbs(CommandLine& line);

}  // namespace exeunt::apps
