// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/command.h"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace exeunt::apps {

void add_examples(CLI::App& app, const std::vector<std::string>& examples) {
  if (!examples.empty()) app.footer(fmt::format("Examples:\n  {}", fmt::join(examples, "\n  ")));
}

CLI::App* add_verb(CommandLine& line, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples, std::function<void()> run) {
  CLI::App* verb = line.app.add_subcommand(name, summary);
  verb->add_flag("--json", line.common.json, "Print results as JSON");
  verb->add_flag("-q,--quiet", line.common.quiet, "Suppress notices and progress");
  add_examples(*verb, examples);
  verb->callback([&chosen = line.chosen, run = std::move(run)] { chosen = run; });
  return verb;
}

}  // namespace exeunt::apps
