// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/manual.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"

namespace exeunt::apps {
namespace {

// CLI11 gives an option's type and its checks as one text: "TEXT:{exeunt,hf}", "INT", "FILE".
std::string type_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  return text.substr(0, text.find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t open = text.find(":{"), close = text.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  const auto words = split(std::string_view(text).substr(open + 2, close - open - 2), ',');
  return {words.begin(), words.end()};
}

#include "manual_tables.inc"  // made from manual_tables.json

// "N", "FILE"; empty for a flag.
std::string value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  if (option.get_positional()) return option.get_name(true, false);
  const std::string type = type_of(option);
  if (type == "INT" || type == "UINT" || type == "FLOAT") return "N";
  if (type != "TEXT") return type;
  std::string name = option.get_lnames().empty() ? "X" : option.get_lnames().front();
  for (const NamedText& placeholder : kPlaceholders) {
    if (placeholder.name == name) return std::string(placeholder.text);
  }
  name.erase(0, name.find_last_of('-') + 1);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool takes_many(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
}

// "exeunt convert SRC --out OUT [OPTIONS]". An argument in lower case is a literal word, followed by more.
std::string usage_of(const CLI::App& app) {
  std::string out = full_name(app), literal;
  bool more = false;
  for (const CLI::Option* option : options_of(app)) {
    const std::string value = value_of(*option);
    if (!option->get_positional()) {
      if (option->get_required()) out += fmt::format(" {} {}", flag_names(*option).back(), value);
      more = more || !option->get_required();
    } else if (std::islower(static_cast<unsigned char>(value[0])) != 0) {
      literal = fmt::format(" {} …", value);
    } else {
      const std::string name = value + (takes_many(*option) ? "…" : "");
      out += option->get_required() ? " " + name : " [" + name + "]";
    }
  }
  if (!verbs_of(app).empty()) return out + " VERB …";
  return out + (more ? " [OPTIONS]" : "") + literal;
}

// "-p, --port N" or "MODEL"
std::string heading_of(const CLI::Option& option) {
  std::vector<std::string> names = flag_names(option);
  if (names.empty()) return value_of(option);
  if (option.get_positional()) names.insert(names.begin(), value_of(option));
  const std::string value = value_of(option);
  return fmt::format("{}{}{}", fmt::join(names, ", "), value.empty() ? "" : " ", value);
}

// Whether a text contains a word, and not only as a part of another.
bool contains_word(std::string_view text, std::string_view word) {
  const auto part_of_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
  }
  return false;
}

// Its text, and in brackets what that does not say: "required", "exeunt or hf", "default 3000", "environment: PORT".
std::string meaning_of(const CLI::Option& option) {
  const std::string text = option.get_description();
  std::vector<std::string> remarks;
  if (option.get_required() && !option.get_positional()) remarks.emplace_back("required");
  const std::vector<std::string> choices = choices_of(option);
  if (!std::all_of(choices.begin(), choices.end(), [&](const auto& choice) { return contains_word(text, choice); })) {
    remarks.push_back(alternatives(choices));
  }
  std::string absent = option.get_type_size() == 0 ? "" : option.get_default_str();
  if (absent.starts_with('[') && absent.ends_with(']')) absent = absent.substr(1, absent.size() - 2);
  if (!absent.empty()) remarks.push_back("default " + absent);
  if (!option.get_envname().empty()) remarks.push_back("environment: " + option.get_envname());
  return remarks.empty() ? text : fmt::format("{} ({})", text, fmt::join(remarks, "; "));
}

}  // namespace

std::span<const NamedText> variables() noexcept {
  return kVariables;
}

std::span<const NamedText> exit_statuses() noexcept {
  return kStatuses;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  auto out = app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
  std::stable_partition(out.begin(), out.end(), [](const CLI::Option* option) { return option->get_positional(); });
  return out;
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::vector<std::string> flag_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

Page page_of(const CLI::App& app) {
  Page page{.name = full_name(app), .summary = app.get_description(), .usage = usage_of(app)};
  const auto add = [&](const std::string& title, bool verbs, Entry entry) {
    auto group =
        std::find_if(page.groups.begin(), page.groups.end(), [&](const auto& one) { return one.title == title; });
    if (group == page.groups.end()) group = page.groups.insert(group, EntryGroup{title, verbs});
    group->entries.push_back(std::move(entry));
  };
  for (const CLI::App* verb : verbs_of(app)) {
    const std::string group = verb->get_group();
    add(group == "Subcommands" ? "Verbs" : group, true, {verb->get_name(), verb->get_description()});
  }
  for (const CLI::Option* option : options_of(app)) {
    const std::string title = option->get_positional()       ? "Arguments"
                              : option == app.get_help_ptr() ? kCommonOptions
                                                             : option->get_group();
    add(title, false, {heading_of(*option), meaning_of(*option)});
  }
  for (const char* last : {kOriginals, kCommonOptions}) {
    std::stable_partition(page.groups.begin(), page.groups.end(), [&](const auto& one) { return one.title != last; });
  }
  if (const std::string footer = app.get_footer(); !footer.empty()) {
    for (const std::string_view line : split(footer, '\n')) page.examples.emplace_back(line);
  }
  return page;
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
std::string wrapped(const Entry& entry, size_t column) {
  static const size_t width = width_of_help();
  std::string out = "  " + entry.first, line;
  if (2 + width_of(entry.first) + 2 > column) {
    out += '\n' + std::string(column, ' ');
  } else {
    out += std::string(column - 2 - width_of(entry.first), ' ');
  }
  for (const std::string_view word : split(entry.second, ' ')) {
    if (!line.empty() && column + width_of(line) + 1 + width_of(word) > width) {
      out += std::exchange(line, "") + '\n' + std::string(column, ' ');
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return out + line + "\n";
}

// One candidate for each of `words` that begins as typed; its meaning behind a tab.
bool print_matches(const std::vector<Entry>& words, std::string_view typed, std::string_view before = "") {
  bool any = false;
  for (const auto& [word, meaning] : words) {
    if (!word.starts_with(typed)) continue;
    fmt::print("{}{}{}{}\n", before, word, meaning.empty() ? "" : "\t", meaning);
    any = true;
  }
  return any;
}

std::vector<Entry> verb_entries(const CLI::App& app) {
  std::vector<Entry> out;
  for (const CLI::App* verb : verbs_of(app)) out.emplace_back(verb->get_name(), verb->get_description());
  return out;
}

std::vector<Entry> choice_entries(const CLI::Option& option) {
  std::vector<Entry> out;
  for (const std::string& choice : choices_of(option)) out.emplace_back(choice, "");
  return out;
}

// The verb that `words` lead to.
const CLI::App& verb_at(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* verb = &app;
  for (const std::string& word : words) {
    if (verb->get_name() == "launch" && (word == "train" || word == "pretrain")) verb = &app;
    const auto verbs = verbs_of(*verb);
    const auto inner =
        std::find_if(verbs.begin(), verbs.end(), [&](const auto* one) { return one->get_name() == word; });
    if (inner != verbs.end()) {
      verb = *inner;
    } else if (verb == &app && !word.starts_with('-')) {
      throw Unknown(Code::usage, fmt::format("unknown verb '{}'", word));
    }
  }
  return *verb;
}

}  // namespace

std::string help_text(const CLI::App& app) {
  const Page page = page_of(app);
  std::string out = fmt::format("{}\n\nUsage: {}\n", page.summary, page.usage);
  const bool has_verbs = !verbs_of(app).empty();
  for (const EntryGroup& group : page.groups) {
    out += fmt::format("\n{}:\n", group.title);
    for (const Entry& entry : group.entries) out += wrapped(entry, has_verbs ? kVerbColumn : kColumn);
  }
  if (!page.examples.empty()) out += fmt::format("\nExamples:\n  {}\n", fmt::join(page.examples, "\n  "));
  if (has_verbs) out += fmt::format("\n'{} VERB --help' shows the options and examples of a verb.\n", page.name);
  return out;
}

int print_completions(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  std::string typed = words.back(), before;
  words.pop_back();
  if (typed == "=") {  // bash takes "--flag=value" as three words
    typed.clear();
  } else if (!words.empty() && words.back() == "=") {
    words.pop_back();
  }
  std::string flag = words.empty() ? "" : words.back();
  if (const size_t end = typed.find('='); typed.starts_with('-') && end != std::string::npos) {
    flag = typed.substr(0, end);
    before = typed.substr(0, end + 1);
    typed.erase(0, end + 1);
  }
  const CLI::App& verb = verb_at(app, words);
  const CLI::Option* option = flag.starts_with('-') ? verb.get_option_no_throw(flag) : nullptr;
  if (option != nullptr && option->get_type_size() != 0) {
    const std::vector<Entry> choices = choice_entries(*option);
    (void)print_matches(choices, typed, before);
    return choices.empty() && value_of(*option) != "N" ? 1 : 0;
  }
  std::vector<Entry> entries = verb_entries(verb);
  for (const CLI::Option* known : options_of(verb)) {
    if (typed.starts_with('-')) {
      for (const std::string& name : flag_names(*known)) entries.emplace_back(name, known->get_description());
    } else if (entries.empty() && known->get_positional()) {
      entries = value_of(*known) == "VERB" ? verb_entries(app) : choice_entries(*known);
    }
  }
  if (!print_matches(entries, typed) && (&verb == &app || typed.starts_with('-'))) {
    throw Unknown(Code::usage, fmt::format("nothing here begins with '{}'", typed));
  }
  return entries.empty() ? 1 : 0;
}

}  // namespace exeunt::apps
