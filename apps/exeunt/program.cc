// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/program.h"

#include <csignal>
#include <cstdio>
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

int guarded(const std::function<int()>& act) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk, not the end of the process
  try {
    return act();
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report(Error(Code::resources, "out of memory", "close other programs or use a smaller input"));
  } catch (const std::exception& error) {
    return report(Error(Code::failure, error.what(), "this is a bug in exeunt; please report it"));
  }
}

}  // namespace exeunt::apps
