// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/option_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/exeunt/output.h"

namespace exeunt::apps {
namespace {

// CLI11 gives an option's type and its checks as one text: "TEXT:{exeunt,hf}", "INT:INT in [1 - 16]", "FILE".
std::string type_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  return text.substr(0, text.find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t open = text.find(":{"), close = text.find('}', open == std::string::npos ? 0 : open);
  std::vector<std::string> out;
  if (open == std::string::npos || close == std::string::npos) return out;
  for (size_t begin = open + 2; begin <= close;) {
    const size_t end = std::min(text.find(',', begin), close);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Placeholders of values in help, if the last word of the option's name is not clear enough.
struct Placeholder {
  std::string_view option, text;
};
constexpr std::array<Placeholder, 28> kPlaceholders{{
    {"also", "NAME=FILE"},      {"cls-first", "WHEN"},  {"data", "PATH"},           {"eval-data", "FILE"},
    {"eval-features", "FILE"},  {"exit-at", "LAYERS"},  {"exits", "LAYERS"},        {"gold", "FILE"},
    {"import", "FILE"},         {"keep-best", "WHICH"}, {"lengths", "LIST"},        {"lengths-of", "TRACE"},
    {"max-drift", "SHARE"},     {"max-drop", "SHARE"},  {"set", "FIELD=VALUE"},     {"max-drop-under-load", "SHARE"},
    {"metrics-compat", "NAME"}, {"out", "PATH"},        {"profile", "FILE"},        {"max-accuracy-drop", "SHARE"},
    {"shadow", "SHARE"},        {"shard", "I/N"},       {"threads", "LIST"},        {"tls-cert", "FILE"},
    {"tls-key", "FILE"},        {"to", "FORMAT"},       {"train-features", "FILE"}, {"unix-socket", "PATH"},
}};

// A specific type, N for numbers, a word of the table, or the last word of the option's name.
std::string placeholder_of(const CLI::Option& option) {
  const std::string type = type_of(option);
  if (type == "INT" || type == "UINT" || type == "FLOAT") return "N";
  if (type != "TEXT") return type;
  std::string name = option.get_lnames().empty() ? "X" : option.get_lnames().front();
  for (const Placeholder& known : kPlaceholders) {
    if (known.option == name) return std::string(known.text);
  }
  name.erase(0, name.find_last_of('-') + 1);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  return text;
}

OptionRow row_of(const CLI::Option& option) {
  OptionRow row;
  for (const std::string& name : option.get_snames()) row.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) row.names.push_back("--" + name);
  if (option.get_positional()) row.argument = option.get_name(true, false);
  if (option.get_type_size() != 0) {
    row.value = row.argument.empty() ? placeholder_of(option) : row.argument;
    row.choices = choices_of(option);
    row.number = row.value == "N";
    row.absent = default_of(option);
  }
  row.text = option.get_description();
  row.variable = option.get_envname();
  row.required = option.get_required();
  row.many = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  row.group = option.get_group();
  for (const std::string& name : row.names) {
    if (name == "--help" || name == "--version" || name == "--json" || name == "--quiet") row.group = kEverywhere;
  }
  return row;
}

std::vector<std::string> examples_of(const CLI::App& app) {
  constexpr std::string_view kTitle = "Examples:\n";
  const std::string text = app.get_footer();
  std::vector<std::string> out;
  if (!text.starts_with(kTitle)) return out;
  for (size_t begin = kTitle.size(); begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out.push_back(text.substr(begin + 2, end - begin - 2));
    begin = end + 1;
  }
  return out;
}

template <class Row>
std::vector<std::string> groups_in_order(const std::vector<Row>& rows) {
  std::vector<std::string> out;
  for (const Row& row : rows) {
    if (std::find(out.begin(), out.end(), row.group) == out.end()) out.push_back(row.group);
  }
  for (const char* last : {kOriginals, kEverywhere}) {
    std::stable_partition(out.begin(), out.end(), [&](const std::string& group) { return group != last; });
  }
  return out;
}

// Whether a text contains a word, and not only as a part of another.
bool says(std::string_view text, std::string_view word) {
  const auto part_of_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
  }
  return false;
}

VerbTable described(const CLI::App& app, const std::string& above) {
  VerbTable verb{.name = above + app.get_name(), .word = app.get_name(), .summary = app.get_description()};
  verb.group = app.get_group();
  verb.examples = examples_of(app);
  for (const bool arguments : {true, false}) {
    for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
      if (!option->get_group().empty() && option->get_positional() == arguments) {
        verb.options.push_back(row_of(*option));
      }
    }
  }
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!inner->get_group().empty()) verb.verbs.push_back(described(*inner, verb.name + " "));
  }
  return verb;
}

}  // namespace

VerbTable describe(const CLI::App& app) {
  std::string above;
  for (const CLI::App* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent()) {
    above = parent->get_name() + " " + above;
  }
  return described(app, above);
}

std::string usage_of(const VerbTable& verb) {
  std::string out = verb.name, literal;
  bool more = false;
  for (const OptionRow& option : verb.options) {
    if (!option.argument.empty() && std::islower(static_cast<unsigned char>(option.argument[0])) != 0) {
      literal = fmt::format(" {} …", option.argument);
    } else if (!option.argument.empty()) {
      const std::string name = option.argument + (option.many ? "…" : "");
      out += option.required ? " " + name : " [" + name + "]";
    } else if (option.required) {
      out += fmt::format(" {} {}", option.names.back(), option.value);
    } else {
      more = true;
    }
  }
  if (!verb.verbs.empty()) return out + " VERB …";
  return out + (more ? " [OPTIONS]" : "") + literal;
}

std::string heading_of(const OptionRow& option) {
  if (option.names.empty()) return option.argument;
  std::string out = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.argument.empty()) out = option.argument + ", " + out;
  return option.value.empty() ? out : out + " " + option.value;
}

std::vector<std::string> remarks_on(const OptionRow& option) {
  std::vector<std::string> out;
  if (option.required && option.argument.empty()) out.emplace_back("required");
  const bool told = std::all_of(option.choices.begin(), option.choices.end(),
                                [&](const std::string& choice) { return says(option.text, choice); });
  if (!option.choices.empty() && !told) out.push_back(alternatives(option.choices));
  if (!option.absent.empty()) out.push_back("default " + option.absent);
  if (!option.variable.empty()) out.push_back("environment: " + option.variable);
  return out;
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string out = words.front();
  for (size_t i = 1; i < words.size(); ++i) out += (i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

std::string meaning_of(const OptionRow& option) {
  const std::vector<std::string> remarks = remarks_on(option);
  return remarks.empty() ? option.text : fmt::format("{} ({})", option.text, fmt::join(remarks, "; "));
}

std::vector<std::string> groups_of(const std::vector<OptionRow>& options) {
  return groups_in_order(options);
}

std::vector<std::string> groups_of(const std::vector<VerbTable>& verbs) {
  return groups_in_order(verbs);
}

namespace {

constexpr size_t kWidth = 100, kNarrowest = 60;   // of a line of help
constexpr size_t kColumn = 32, kVerbColumn = 14;  // where meanings begin

// The width of the terminal, but no wider than reads well.
size_t width_of_help() {
  struct winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidth;
  return std::clamp<size_t>(size.ws_col, kNarrowest, kWidth);
}

// "  --port N      Port to listen on", wrapped at spaces; a long heading has its own line.
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
