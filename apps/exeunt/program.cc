// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/process.h"
#include "exeunt/base/suggest.h"
#include "exeunt/base/unknown.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace {

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

// "0.500000" → "0.5"
std::string short_number(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// The text between two others, which must occur in this order; nothing otherwise.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + before.size());
  const size_t end = after.empty() ? text.size() : text.rfind(after);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, end));
}

// The two ends that a message of CLI11 names: "1 to 16" up to its version 2.3, "[1 - 16]" since 2.4.
std::pair<std::string, std::string> ends_of(std::string_view range) {
  const bool brackets = range.starts_with('[') && range.ends_with(']');
  if (brackets) range = range.substr(1, range.size() - 2);
  const std::string_view to = brackets ? " - " : " to ";
  const size_t at = range.find(to);
  if (at == std::string_view::npos) return {};
  return {short_number(std::string(range.substr(0, at))), short_number(std::string(range.substr(at + to.size())))};
}

// The requirement of a CLI11 check without an upper bound; its message names the largest number there is.
std::string open_range(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  const bool from_zero = option != nullptr && option->get_type_name().find("NONNEGATIVE") != std::string::npos;
  return from_zero ? "0 or more" : "more than 0";
}

// CLI11's messages about a value, as all our other messages are: where, got, want.
Error value_error(const CLI::App& verb, const std::string& text, const std::string& see) {
  const std::string name = text.substr(0, text.find(": "));
  const auto wrong = [&](const std::string& where, const std::string& got, const std::string& want) {
    return Error(Code::usage, fmt::format("{}: got '{}', want {}", where, got, want), see);
  };
  if (const auto known = between(text, " not in {", "}")) {
    const std::string got = *between(text, ": ", " not in {");
    const std::vector<std::string_view> parts = split(*known, ',');
    const std::vector<std::string> choices(parts.begin(), parts.end());
    const std::string near = nearest(got, choices);
    return {Code::usage, fmt::format("{}: got '{}', want {}", name, got, alternatives(choices)),
            near.empty() ? see : fmt::format("did you mean '{}'?", near)};
  }
  if (const auto range = between(text, " not in range ", "")) {
    const auto [low, high] = ends_of(*range);
    if (low.empty()) return {Code::usage, text, see};
    constexpr double kLargest = 1e300;  // above it nobody chose the limit
    const bool open = number_of<double>(high).value_or(HUGE_VAL) > kLargest;
    return wrong(name, between(text, "Value ", " not in range").value_or(""),
                 open ? open_range(verb, name) : fmt::format("{} to {}", low, high));
  }
  if (const auto option = between(text, "Could not convert: ", " = ")) {
    return wrong(*option, *between(text, " = ", ""), "a number");
  }
  if (const auto other = between(text, " excludes ", "")) {
    return {Code::usage,
            fmt::format("got both {} and {}, want one of them", between(text, "", " excludes ").value(), *other), see};
  }
  if (between(text, ": 1 required ", " missing")) {
    return {Code::usage, fmt::format("{}: got nothing, want a value", name), see};
  }
  return {Code::usage, text, see};
}

// CLI11's error as our Error: which argument, and the nearest verb or flag if there is one.
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
        const bool path = &verb != &app && path_exists(name);  // a path in place of a subcommand
        return {Code::usage, fmt::format("unknown verb '{}'", name),
                path
                    ? fmt::format("for example exeunt {} {} {}", verb.get_name(), known_verbs.front(), shell_word(name))
                    : suggestion(name, known_verbs)};
      }
    }
    if (!extras.empty()) {
      const bool data = std::find(known_flags.begin(), known_flags.end(), "--data") != known_flags.end();
      return {Code::usage, fmt::format("unexpected argument '{}'", extras.front()),
              data && path_exists(extras.front())
                  ? fmt::format("data is named with --data {}", shell_word(extras.front()))
                  : see};
    }
    if (std::string_view(error.what()) == "A subcommand is required") {
      return {Code::usage, "got no verb", suggestion("", known_verbs)};
    }
  }
  return value_error(verb, error.what(), see);
}

// Prints the help of the innermost verb named on the command line. Returns the exit status.
int print_help(const CLI::App& app) {
  fmt::print("{}", help_text(describe(innermost(app))));
  return finish_output();
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  const std::filesystem::path folder = program_folder();
  for (const char* place : {".", "../libexec/exeunt", "../../bin"}) {
    const std::filesystem::path program = folder / place / name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

void become_lab(char** argv) {
  if (argv == nullptr || std::getenv(kStartedByLab) != nullptr) return;
  const std::filesystem::path lab = find_program("exeunt-lab");
  if (!lab.empty()) ::execv(lab.c_str(), argv);
}

int run_program(const Program& program, const std::vector<std::string>& words) {
  CLI::App app{program.summary};
  app.name(program.name);
  app.set_help_flag("-h,--help", "Print this help");  // verbs inherit it
  app.set_version_flag("--version", program.name + " " + std::string(version()), "Print the version");
  app.require_subcommand(1);
  Common common;
  std::function<void()> chosen;
  CommandLine line{app, common, chosen, program.more};
  program.add_verbs(line);
  add_examples(app, program.examples);
  if (words.empty()) {  // like --help, but a usage error for scripts
    std::fputs(help_text(describe(app)).c_str(), stderr);
    return static_cast<int>(Code::usage);
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    if (!app.remaining(true).empty()) become_lab(program.argv);
    return print_help(app);
  } catch (const CLI::CallForVersion& version_text) {
    fmt::print("{}\n", version_text.what());
    return finish_output();
  } catch (const CLI::ParseError& error) {
    become_lab(program.argv);
    return report(usage_error(app, words, error));
  }
  for (const std::string& text : program.notices) notice(common, text);
  try {
    chosen();
  } catch (const Unknown&) {
    become_lab(program.argv);
    throw;
  }
  return finish_output();
}

namespace {

constexpr const char* kNoMemory = "out of memory";
constexpr const char* kNoMemoryHint = "close other programs or use a smaller input";
std::terminate_handler usual_end = nullptr;

// Memory may run out where nothing can be caught: a JSON value allocates while it is destroyed.
[[noreturn]] void end_without_memory() {
  try {
    if (const auto failure = std::current_exception()) std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: %s\n  hint: %s\n", kNoMemory, kNoMemoryHint);  // stderr has no buffer to allocate
    std::_Exit(static_cast<int>(Code::resources));
  } catch (...) {  // an error of ours: the usual end says so
  }
  usual_end();
  std::abort();
}

}  // namespace

int guarded(const std::function<int()>& act) {
  usual_end = std::set_terminate(end_without_memory);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk, not the end of the process
  try {
    return act();
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report(Error(Code::resources, kNoMemory, kNoMemoryHint));
  } catch (const std::exception& error) {
    return report(Error(Code::failure, error.what(), "this is a bug in exeunt; please report it"));
  }
}

}  // namespace exeunt::apps
