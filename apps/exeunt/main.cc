// SPDX-License-Identifier: Apache-2.0
// The command `exeunt`: reads the command line, runs one verb, and turns every failure into one message and a status.
#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "apps/exeunt/command.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/usage.h"
#include "exeunt/base/error.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Exeunt: BERT-family classifiers that stop at the layer where they are sure."};
  app.name("exeunt");
  app.set_version_flag("--version", "exeunt " + std::string(version()));
  app.require_subcommand(1);
  app.formatter(help_layout());  // verbs inherit it
  app.footer("Run 'exeunt VERB --help' for the options and examples of a verb.");
  Common common;
  std::function<void()> chosen;
  CommandLine line{app, common, chosen};
  add_all_verbs(line);

  const auto [arguments, notices] = normalised_arguments(argc, argv);
  if (arguments.empty()) {  // like --help, but a usage error for scripts
    std::fputs(app.help().c_str(), stderr);
    return static_cast<int>(Code::usage);
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return print_help(app);
  } catch (const CLI::CallForVersion& version_text) {
    fmt::print("{}\n", version_text.what());
    return finish_output();
  } catch (const CLI::ParseError& error) {
    return report(usage_error(app, arguments, error));
  }
  for (const std::string& text : notices) notice(common, text);
  chosen();
  return finish_output();
}

}  // namespace
}  // namespace exeunt::apps

int main(int argc, char** argv) {
  using exeunt::Code;
  using exeunt::Error;
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk, not the end of the process
  try {
    return exeunt::apps::run(argc, argv);
  } catch (const Error& error) {
    return exeunt::apps::report(error);
  } catch (const std::bad_alloc&) {
    return exeunt::apps::report(Error(Code::resources, "out of memory", "close other programs or use a smaller input"));
  } catch (const std::exception& error) {
    return exeunt::apps::report(Error(Code::failure, error.what(), "this is a bug in exeunt; please report it"));
  }
}
