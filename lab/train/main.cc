// SPDX-License-Identifier: Apache-2.0
// The program `exeunt-lab-train`, which exeunt-lab starts: what of the lab needs LibTorch.
#include "apps/exeunt-train/train.h"
#include "apps/exeunt/program.h"
#include "lab/papers/elbert.h"
#include "lab/train/lab_train_verbs.h"

namespace {

void add_verbs(exeunt::apps::CommandLine& line) {
  using namespace exeunt::apps;
  add_pretrain(line);
  const auto choice = std::make_shared<std::shared_ptr<const AutoFlags>>();
  add_train_verb(line, [choice, &common = line.common](const TrainFlags& flags) {
    const AutoFlags& given = **choice;
    if (flags.plan.recipe == kAuto || !given.try_recipes.empty() || !given.target_speedup.empty()) {
      return train_auto(common, flags, given);
    }
    const auto settings_of = [](const std::string& recipe, const exeunt::Checkpoint& model) {
      const exeunt::ElbertTraining named = exeunt::elbert_settings(recipe, model.folder());
      return ModelSettings{.set = named.set, .notices = named.notices};
    };
    train_by_flags(common, exeunt::requested_recipe(flags.plan), flags, settings_of);
  });
  *choice = add_auto_flags(*line.app.get_subcommand("train"));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    return run_program({.name = "exeunt",
                        .summary = "The part of exeunt-lab that trains models, with LibTorch.",
                        .add_verbs = add_verbs},
                       {argv + (argc > 0 ? 1 : 0), argv + argc});
  });
}
