// SPDX-License-Identifier: Apache-2.0
// The trainer `exeunt-train`, which `exeunt train` starts.
#include "apps/exeunt-train/train.h"
#include "apps/exeunt/program.h"
#include "exeunt/recipes/elbert_config.h"

namespace {

void add_verbs(exeunt::apps::CommandLine& line) {
  exeunt::apps::add_train_verbs(line, [](const std::string& recipe, const exeunt::Checkpoint& model) {
    exeunt::ElbertTraining named = exeunt::elbert_settings(recipe, model.folder());
    return exeunt::apps::ModelSettings{.set = std::move(named.set), .notices = std::move(named.notices)};
  });
}

}  // namespace

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    return run_program({.name = "exeunt",
                        .summary = "The part of Exeunt that trains models, with LibTorch.",
                        .add_verbs = add_verbs,
                        .argv = argv},
                       {argv + (argc > 0 ? 1 : 0), argv + argc});
  });
}
