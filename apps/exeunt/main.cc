// SPDX-License-Identifier: Apache-2.0
// The command `exeunt`: reads the command line, runs one verb, and turns every failure into one message and a status.
#include "apps/exeunt/launch.h"
#include "apps/exeunt/program.h"
#include "apps/exeunt/trainer.h"
#include "exeunt/originals/flags.h"

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
                        .add_verbs = add_all_verbs,
                        .examples = {"exeunt train --data my.csv               learns your texts: a model in runs/my",
                                     "exeunt calibrate runs/my --max-drop 5%   how early texts may leave, as a promise",
                                     "exeunt serve runs/my                     answers over HTTP, with a page to try"}},
                       exeunt::with_current_names({argv + (argc > 0 ? 1 : 0), argv + argc}));
  });
}
