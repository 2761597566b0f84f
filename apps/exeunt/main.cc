// SPDX-License-Identifier: Apache-2.0
// The command `exeunt`: reads the command line, runs one verb, and turns every failure into one message and a status.
#include "apps/exeunt/program.h"

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (!asks_for_help(argc, argv)) {
      if (verb == "train") become("exeunt-train", argv);
      if (verb == "launch") return launch(argc, argv);
    }
    return run_program(
        {.name = "exeunt",
         .summary = "Exeunt: train, certify and serve BERT-family classifiers with early exits.",
         .add_verbs = add_all_verbs,
         .examples =
             {"exeunt train --data my.csv               train on your texts, certify; the model goes to runs/my",
              "exeunt attach MODEL --texts log.txt      give a finished classifier exits and a certificate",
              "exeunt serve runs/my                     serve the model over HTTP, with a playground",
              "exeunt-lab help                          more verbs: the papers' flags, figures and benchmarks"},
         .argv = argv},
        {argv + (argc > 0 ? 1 : 0), argv + argc});
  });
}
