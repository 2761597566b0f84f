// SPDX-License-Identifier: Apache-2.0
// The command `exeunt`: reads the command line, runs one verb, and turns every failure into one message and a status.
#include "apps/exeunt/launch.h"
#include "apps/exeunt/program.h"
#include "apps/exeunt/trainer.h"

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    if (argc > 1 && is_trainers_verb(argv[1])) start_trainer(argv);
    if (argc > 1 && std::string_view(argv[1]) == "launch" && std::string_view(argv[argc - 1]) != "--help")
      return launch(argc, argv);
    return run_program({.name = "exeunt",
                        .summary = "Exeunt: BERT-family classifiers that stop at the layer where they are sure.",
                        .add_verbs = add_all_verbs},
                       normalised_arguments(argc, argv));
  });
}
