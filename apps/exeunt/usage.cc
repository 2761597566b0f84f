// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/usage.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/suggest.h"

namespace exeunt::apps {
namespace {

// The originals' names of flags that mean the same as ours.
struct OldName {
  std::string_view old_name, new_name;
};
constexpr std::array<OldName, 6> kOldNames{{{"--task-name", "--task"},
                                            {"--data-dir", "--data"},
                                            {"--max-seq-length", "--max-length"},
                                            {"--eval-all-checkpoints", "--all-checkpoints"},
                                            {"--eval-each-highway", "--each-exit"},
                                            {"--output-dir", "--out"}}};

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && argument != "--";
}

// The verb (or verb of a verb) that parsing reached.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return *current;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// "exeunt convert --help" for the verb that parsing reached.
std::string help_hint(const CLI::App& app, const CLI::App& verb) {
  std::string name = verb.get_name();
  for (const CLI::App* parent = verb.get_parent(); parent != nullptr; parent = parent->get_parent()) {
    name = parent->get_name() + " " + name;
  }
  return fmt::format("see '{} --help'", &verb == &app ? app.get_name() : name);
}

}  // namespace

Arguments normalised_arguments(int argc, char** argv) {
  Arguments out;
  out.words.assign(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (std::string& word : out.words) {
    if (word == "--") break;
    if (!word.starts_with("--")) continue;
    const size_t end = std::min(word.find('='), word.size());
    const std::string typed = word.substr(0, end);
    std::replace(word.begin(), word.begin() + static_cast<ptrdiff_t>(end), '_', '-');
    for (const OldName& name : kOldNames) {
      if (word.substr(0, end) != name.old_name) continue;
      out.notices.push_back(fmt::format("{} is an old name; today: {}", typed, name.new_name));
      word.replace(0, end, name.new_name);
      break;
    }
  }
  return out;
}

Error usage_error(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error) {
  const CLI::App& verb = innermost(app);
  const std::string see = help_hint(app, verb);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const bool at_top = &verb == &app || !verb_names(verb).empty();
    const std::vector<std::string> known_flags = flag_names(verb), known_verbs = verb_names(verb);
    const std::vector<std::string> extras = app.remaining(true);
    for (const std::string& extra : extras.empty() ? arguments : extras) {
      const std::string name = extra.substr(0, extra.find('='));
      if (is_flag(name) && std::find(known_flags.begin(), known_flags.end(), name) == known_flags.end()) {
        const std::string near = nearest(name, known_flags);
        return {Code::usage, fmt::format("unknown flag '{}'", name),
                near.empty() ? see : fmt::format("did you mean '{}'?", near)};
      }
      if (!is_flag(name) && at_top && std::find(known_verbs.begin(), known_verbs.end(), name) == known_verbs.end() &&
          name != verb.get_name()) {
        return {Code::usage, fmt::format("unknown verb '{}'", name), suggestion(name, known_verbs)};
      }
    }
    if (!extras.empty()) return {Code::usage, fmt::format("unexpected argument '{}'", extras.front()), see};
  }
  return {Code::usage, error.what(), see};
}

int print_help(const CLI::App& app) {
  fmt::print("{}", help_text(describe(innermost(app))));
  return finish_output();
}

}  // namespace exeunt::apps
