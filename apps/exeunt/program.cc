// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/program.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>

#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {

int run_program(const Program& program, const Arguments& arguments) {
  CLI::App app{program.summary};
  app.name(program.name);
  app.set_help_flag("-h,--help", "Print this help");  // verbs inherit it
  app.set_version_flag("--version", program.name + " " + std::string(version()), "Print the version");
  app.require_subcommand(1);
  Common common;
  std::function<void()> chosen;
  CommandLine line{app, common, chosen};
  program.add_verbs(line);
  add_examples(app, program.examples);
  const std::vector<std::string>& words = arguments.words;
  if (words.empty()) {  // like --help, but a usage error for scripts
    std::fputs(help_text(describe(app)).c_str(), stderr);
    return static_cast<int>(Code::usage);
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return print_help(app);
  } catch (const CLI::CallForVersion& version_text) {
    fmt::print("{}\n", version_text.what());
    return finish_output();
  } catch (const CLI::ParseError& error) {
    return report(usage_error(app, words, error));
  }
  for (const std::string& text : arguments.notices) notice(common, text);
  chosen();
  return finish_output();
}

namespace {

constexpr const char* kNoMemory = "out of memory";
constexpr const char* kNoMemoryHint = "close other programs or use a smaller input";
std::terminate_handler usual_end = nullptr;

// Memory may be wanting where nothing can be caught: a JSON value allocates while it is destroyed.
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
