// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/command.h"

namespace exeunt::apps {
namespace {

// Puts the verbs added since the last call under this title in the list of verbs.
void end_group(CommandLine& line, const char* title) {
  for (CLI::App* verb : line.app.get_subcommands([](CLI::App*) { return true; })) {
    if (verb->get_group() == "Subcommands") verb->group(title);
  }
}

}  // namespace

void add_all_verbs(CommandLine& line) {
  // In the order in which a user meets them.
  for (auto* add : {add_attach, add_train, add_calibrate, add_predict, add_serve, add_eval, add_info, add_convert,
                    add_export, add_bench, add_policy, add_doctor})
    add(line);
  end_group(line, "Verbs");
  for (auto* add :
       {add_data, add_trace, add_quantize, add_tokenize, add_prepare, add_launch, add_merge, add_completion, add_help})
    add(line);
  end_group(line, "More verbs");
}

}  // namespace exeunt::apps
