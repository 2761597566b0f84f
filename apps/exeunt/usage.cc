// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/usage.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

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

// Options with a placeholder (one of their own, N, or the last word of their name), and the default behind the
// description.
class HelpLayout : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_positional()) return {};
    const std::string type = option->get_type_name().substr(0, option->get_type_name().find_first_of(":{"));
    if (type == "INT" || type == "UINT" || type == "FLOAT") return " N";
    if (type != "TEXT") return " " + type;
    std::string name = option->get_lnames().empty() ? "X" : option->get_lnames().front();
    name.erase(0, name.find_last_of('-') + 1);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return " " + name;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string& absent = option->get_default_str();
    std::string text = option->get_description();
    if (option->get_required() && !option->get_positional()) text += " (required)";
    if (!absent.empty() && absent != "[]") text += fmt::format(" (default {})", unbracketed(absent));
    return wrapped(std::move(text), kWidth - get_column_width());
  }

 private:
  static constexpr size_t kWidth = 112;  // of a line of help

  // Breaks at blanks; CLI11 indents what follows a line break.
  static std::string wrapped(std::string text, size_t width) {
    for (size_t begin = 0; text.size() - begin > width;) {
      const size_t blank = text.rfind(' ', begin + width);
      if (blank == std::string::npos || blank <= begin) break;
      text[blank] = '\n';
      begin = blank + 1;
    }
    return text;
  }
  static std::string unbracketed(const std::string& text) {
    return text.front() == '[' && text.back() == ']' ? text.substr(1, text.size() - 2) : text;
  }
};

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

std::shared_ptr<CLI::Formatter> help_layout() {
  auto layout = std::make_shared<HelpLayout>();
  layout->column_width(32);
  return layout;
}

int print_help(const CLI::App& app) {
  const CLI::App& verb = innermost(app);
  std::string above;
  for (const CLI::App* parent = verb.get_parent(); parent != nullptr; parent = parent->get_parent())
    above = parent->get_name() + (above.empty() ? "" : " " + above);
  fmt::print("{}", verb.help(above));
  return finish_output();
}

}  // namespace exeunt::apps
