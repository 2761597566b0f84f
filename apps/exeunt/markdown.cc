// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "apps/exeunt/environment.h"
#include "apps/exeunt/manual.h"

namespace exeunt::apps {
namespace {

constexpr std::string_view kOpening =
    "# Command line\n\n"
    "Written by `exeunt help --markdown` from the command's own table of options; a test fails where they differ.\n"
    "`exeunt VERB --help` shows the same on a terminal, `man exeunt-VERB` where it is installed, and completion for\n"
    "shells comes from `exeunt completion bash`, `zsh` or `fish`.\n";

// What would be markup in a cell of a table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<' || c == '[' || c == ']' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

// In a cell a bar ends the column even inside code.
std::string code(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return "`" + text + "`";
}

std::string first_column(const OptionRow& option) {
  std::string out;
  if (!option.argument.empty()) out = code(option.argument + (option.many ? "…" : ""));
  for (const std::string& name : option.names) {
    out += (out.empty() ? "" : ", ") +
           code(&name == &option.names.back() && !option.value.empty() ? name + " " + option.value : name);
  }
  return out;
}

std::string row(const OptionRow& option) {
  return fmt::format("| {} | {} |\n", first_column(option), cell(meaning_of(option)));
}

std::string section(const VerbTable& verb) {
  std::string out = fmt::format("\n## {}\n{}\n", verb.name, cell(verb.summary));
  out += fmt::format("```\n{}\n```\n", usage_of(verb));
  for (const std::string& group : groups_of(verb.options)) {
    if (group == kEverywhere) continue;
    out += fmt::format("| {} | |\n| --- | --- |\n", group == "Options" ? "" : group);
    for (const OptionRow& option : verb.options) {
      if (option.group == group) out += row(option);
    }
    out += "\n";
  }
  if (!verb.examples.empty()) out += fmt::format("```\n{}\n```\n", fmt::join(verb.examples, "\n"));
  for (const VerbTable& inner : verb.verbs) out += section(inner);
  return out;
}

std::string anchor(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

}  // namespace

std::string markdown_manual(const VerbTable& command) {
  std::string out(kOpening);
  if (!command.examples.empty()) out += fmt::format("```\n{}\n```\n", fmt::join(command.examples, "\n"));
  for (const std::string& group : groups_of(command.verbs)) {
    out += fmt::format("\n| {} | |\n| --- | --- |\n", group);
    for (const VerbTable& verb : command.verbs) {
      if (verb.group != group) continue;
      out += fmt::format("| [{}](#{}) | {} |\n", verb.word, anchor(verb.name), cell(verb.summary));
    }
  }
  out += "\nEvery verb also takes:\n\n| | |\n| --- | --- |\n";
  const VerbTable& any = command.verbs.front();
  for (const OptionRow& option : any.options) {
    if (option.group == kEverywhere) out += row(option);
  }
  out +=
      "\n`exeunt --version` prints the version. Flags may be written with `_` for `-`, and the originals' names "
      "are\nunderstood.\n";
  out += "\n| exit status | |\n| --- | --- |\n";
  for (const ExitStatus& status : exit_statuses()) out += fmt::format("| {} | {} |\n", status.value, status.meaning);
  out += "\n| environment | |\n| --- | --- |\n";
  for (const Variable& variable : variables()) {
    out += fmt::format("| `{}` | {} |\n", variable.name, cell(variable.effect));
  }
  for (const VerbTable& verb : command.verbs) out += section(verb);
  return out;
}

}  // namespace exeunt::apps
