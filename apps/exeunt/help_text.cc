// SPDX-License-Identifier: Apache-2.0
// The table of options as a screen of text.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"

namespace exeunt::apps {
namespace {

constexpr size_t kWidth = 100, kNarrowest = 60;   // of a line of help
constexpr size_t kColumn = 32, kVerbColumn = 14;  // where meanings begin

// As wide as the terminal, where that is narrower than a line that reads well.
size_t width_of_help() {
  struct winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidth;
  return std::clamp<size_t>(size.ws_col, kNarrowest, kWidth);
}

// "  --port N      Port to listen on", broken at blanks; a long heading has a line of its own.
std::string entry(const std::string& heading, const std::string& meaning, size_t column) {
  static const size_t width = width_of_help();
  std::string out = "  " + heading;
  size_t at = 2 + width_of(heading);
  if (at + 2 > column) {
    out += '\n';
    at = 0;
  }
  bool first = true;
  for (size_t begin = 0; begin < meaning.size();) {
    const size_t end = std::min(meaning.find(' ', begin), meaning.size());
    const std::string_view word = std::string_view(meaning).substr(begin, end - begin);
    if (!first && at + 1 + width_of(word) > width) {
      out += '\n';
      at = 0;
      first = true;
    }
    out += first ? std::string(column - at, ' ') : " ";
    at = (first ? column : at + 1) + width_of(word);
    out += word;
    first = false;
    begin = end + 1;
  }
  return out + "\n";
}

}  // namespace

std::string help_text(const VerbTable& verb) {
  std::string out = fmt::format("{}\n\nUsage: {}\n", verb.summary, usage_of(verb));
  const size_t column = verb.verbs.empty() ? kColumn : kVerbColumn;
  for (const std::string& group : groups_of(verb.verbs)) {
    out += fmt::format("\n{}:\n", group == "Subcommands" ? "Verbs" : group);
    for (const VerbTable& inner : verb.verbs) {
      if (inner.group == group) out += entry(inner.word, inner.summary, column);
    }
  }
  std::vector<OptionRow> arguments, named;
  for (const OptionRow& option : verb.options) (option.argument.empty() ? named : arguments).push_back(option);
  if (!arguments.empty()) out += "\nArguments:\n";
  for (const OptionRow& option : arguments) out += entry(heading_of(option), meaning_of(option), column);
  for (const std::string& group : groups_of(named)) {
    out += fmt::format("\n{}:\n", group);
    for (const OptionRow& option : named) {
      if (option.group == group) out += entry(heading_of(option), meaning_of(option), column);
    }
  }
  if (!verb.examples.empty()) out += fmt::format("\nExamples:\n  {}\n", fmt::join(verb.examples, "\n  "));
  if (!verb.verbs.empty())
    out += fmt::format("\n'{} VERB --help' shows the options and examples of a verb.\n", verb.name);
  return out;
}

}  // namespace exeunt::apps
