// SPDX-License-Identifier: Apache-2.0
// The command `exeunt`: reads the command line, runs one verb, and turns every failure into one message and a status.
#include "apps/exeunt/launch.h"
#include "apps/exeunt/program.h"
#include "apps/exeunt/trainer.h"

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (!asks_for_help(argc, argv)) {
      if (is_trainers_verb(verb)) start_trainer(argv);
      if (verb == "launch") return launch(argc, argv);
    }
    return run_program({.name = "exeunt",
                        .summary = "Exeunt: BERT-family classifiers that stop at the layer where they are sure.",
                        .add_verbs = add_all_verbs},
                       normalised_arguments(argc, argv));
  });
}
