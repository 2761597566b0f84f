// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/program.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/process.h"
#include "exeunt/base/suggest.h"
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

std::vector<std::string> all_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    for (const std::string& name : flag_names(*option)) names.push_back(name);
  }
  return names;
}

// Messages about a value in the form of all others: where, got, want. Our checks (one_of(), number_in()) write theirs,
// with a hint behind a line break; those of CLI11's own checks begin with "FLAG: ", or have FLAG in a fixed place.
Error value_error(const CLI::App& verb, const CLI::ParseError& error, const std::string& see) {
  const std::string text = error.what();
  const auto from = [&](std::string_view mark) {
    return text.substr(std::min(text.find(mark) + mark.size(), text.size()));
  };
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && text.starts_with("Could not convert: ")) {
    const std::string given = from(": "), name = given.substr(0, given.find(" = "));
    const CLI::Option* option = verb.get_option_no_throw(name);
    const bool whole = option != nullptr && option->get_type_name().find("INT") != std::string::npos;
    return {Code::usage, fmt::format("{}: got '{}', want a {}number", name, from(" = "), whole ? "whole " : ""), see};
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::string name = text.substr(0, text.find(' '));
    return {Code::usage, fmt::format("got both {} and {}, want one of them", name, from(" excludes ")), see};
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return {Code::usage, fmt::format("{}: got nothing, want a value", text.substr(0, text.find(": "))), see};
  }
  const size_t end = text.find('\n');
  return {Code::usage, text.substr(0, end), end == std::string::npos ? see : text.substr(end + 1)};
}

// Flags that other programs have for what a flag of ours does.
std::string hint_for_flag(const CLI::App& verb, const std::string& name, const std::vector<std::string>& known) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kElsewhere = {{{"--host", "--hostname"},
                                                                                        {"-o", "--out"},
                                                                                        {"--output", "--out"},
                                                                                        {"--output-dir", "--out"},
                                                                                        {"--output_dir", "--out"},
                                                                                        {"--batch-size", "--batch"},
                                                                                        {"--batch_size", "--batch"},
                                                                                        {"--learning-rate", "--lr"}}};
  if (name == "--model" && verb.get_option_no_throw("MODEL") != nullptr)
    return fmt::format("the model is the first argument: {} MODEL", full_name(verb));
  for (const auto& [theirs, ours] : kElsewhere) {
    if (name == theirs && std::find(known.begin(), known.end(), ours) != known.end())
      return fmt::format("did you mean '{}'?", ours);
  }
  const std::string near = nearest(name, known);
  return near.empty() ? fmt::format("see '{} --help'", full_name(verb)) : fmt::format("did you mean '{}'?", near);
}

// CLI11's error as our Error: which argument, and the nearest verb or flag if there is one.
Error usage_error(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error) {
  const CLI::App& verb = innermost(app);
  const std::string see = fmt::format("see '{} --help'", full_name(verb));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const bool at_top = &verb == &app || !verb_names(verb).empty();
    const std::vector<std::string> known_flags = all_flags(verb), known_verbs = verb_names(verb);
    const std::vector<std::string> extras = app.remaining(true);
    for (const std::string& extra : extras.empty() ? arguments : extras) {
      const std::string name = extra.substr(0, extra.find('='));
      if (is_flag(name) && std::find(known_flags.begin(), known_flags.end(), name) == known_flags.end()) {
        return {Code::usage, fmt::format("unknown flag '{}'", name), hint_for_flag(verb, name, known_flags)};
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
              data && !extras.front().starts_with('-')
                  ? fmt::format("data is named with --data {}", shell_word(extras.front()))
                  : see};
    }
    if (std::string_view(error.what()) == "A subcommand is required") {
      return {Code::usage, "got no verb", suggestion("", known_verbs)};
    }
  }
  return value_error(verb, error, see);
}

// Prints the help of the innermost verb named on the command line. Returns the exit status.
int print_help(const CLI::App& app) {
  fmt::print("{}", help_text(innermost(app)));
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

std::filesystem::path require_program(const std::string& name) {
  std::filesystem::path program = find_program(name);
  if (!program.empty()) return program;
  throw Error(Code::resources,
              fmt::format("{} is not installed beside {}", name, (program_folder() / "exeunt").string()),
              "build it with LibTorch: cmake --preset release -DEXEUNT_TRAIN=ON");
}

void become(const std::string& name, char** argv) {
  const std::filesystem::path program = require_program(name);
  ::execv(program.c_str(), argv);
  throw Error(Code::resources, fmt::format("{}: cannot start: {}", program.string(), std::strerror(errno)));
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
  app.set_version_flag("--version", program.name + " " + std::string(version()), "Print the version")
      ->group(kCommonOptions);
  app.require_subcommand(1);
  Common common;
  std::function<void()> chosen;
  CommandLine line{app, common, chosen, program.more, program.argv};
  program.add_verbs(line);
  app.footer(fmt::format("{}", fmt::join(program.examples, "\n")));
  if (words.empty()) {  // like --help, but a usage error for scripts
    std::fputs(help_text(app).c_str(), stderr);
    return static_cast<int>(Code::usage);
  }
  try {
    if (words.front() == kComplete) return print_completions(app, {words.begin() + 1, words.end()});
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    for (const std::string& text : program.notices) notice(common, text);
    chosen();
  } catch (const CLI::CallForHelp&) {
    if (!app.remaining(true).empty()) become_lab(program.argv);
    return print_help(app);
  } catch (const CLI::CallForVersion& version_text) {
    fmt::print("{}\n", version_text.what());
    return finish_output();
  } catch (const CLI::ParseError& error) {
    become_lab(program.argv);
    return report(usage_error(app, words, error));
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
