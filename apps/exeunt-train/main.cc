// SPDX-License-Identifier: Apache-2.0
// The trainer `exeunt-train`, which `exeunt train` starts.
#include "apps/exeunt-train/train.h"
#include "apps/exeunt/program.h"

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    return run_program({.name = "exeunt",
                        .summary = "The part of Exeunt that trains models, with LibTorch.",
                        .add_verbs = add_train_verbs,
                        .argv = argv},
                       {argv + (argc > 0 ? 1 : 0), argv + argc});
  });
}
