// SPDX-License-Identifier: Apache-2.0
// The command line as plain data, read from what the verbs declared. Help, docs/cli.md, man pages and completion are
// written from this one table, so that they always agree on the flags.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace exeunt::apps {

struct OptionRow {
  std::vector<std::string> names = {};    // "-p", "--port"; none for an argument without a name
  std::string argument = {};              // "MODEL" if it may be given without a name
  std::string value = {};                 // "N", "FILE"; empty for a flag
  std::string text = {};                  // what it means
  std::string absent = {};                // the default
  std::vector<std::string> choices = {};  // all that it takes; empty: not a choice
  std::string variable = {};              // of the environment, that says the same
  std::string group = {};
  bool number = false, required = false, many = false;
};

struct VerbTable {
  std::string name = {};  // "exeunt policy show"
  std::string word = {};  // "show"
  std::string summary = {}, group = {};
  std::vector<std::string> examples = {};
  std::vector<OptionRow> options = {};  // arguments first, then as they were declared
  std::vector<VerbTable> verbs = {};
};

// The group of flags that every verb has.
inline constexpr const char* kEverywhere = "Common options";
inline constexpr const char* kOriginals = "Flags of the original implementations";

[[nodiscard]] VerbTable describe(const CLI::App& app);

// "exeunt convert SRC --out OUT [OPTIONS]". An argument in lower case is a literal word, followed by more.
[[nodiscard]] std::string usage_of(const VerbTable& verb);
// "-p, --port N" or "MODEL"
[[nodiscard]] std::string heading_of(const OptionRow& option);
// What is not in its text: "required", "exeunt or hf", "default 3000", "environment: PORT".
[[nodiscard]] std::vector<std::string> remarks_on(const OptionRow& option);
// "a, b or c"
[[nodiscard]] std::string alternatives(const std::vector<std::string>& words);
// Its text with the remarks in brackets.
[[nodiscard]] std::string meaning_of(const OptionRow& option);
// The groups of rows in the order of their first row, those of every verb last.
[[nodiscard]] std::vector<std::string> groups_of(const std::vector<OptionRow>& options);
[[nodiscard]] std::vector<std::string> groups_of(const std::vector<VerbTable>& verbs);

// Screen text of --help.
[[nodiscard]] std::string help_text(const VerbTable& verb);

}  // namespace exeunt::apps
