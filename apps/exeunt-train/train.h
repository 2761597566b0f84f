// SPDX-License-Identifier: Apache-2.0
// `exeunt train`: flags to data, recipe and options; the rest is exeunt/train.
#pragma once

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/train/run.h"

namespace exeunt::apps {

void add_train_verbs(CommandLine& line);

// The model to start from, with what --layers leaves of it. Model and folder that the flags leave open are filled in.
[[nodiscard]] Checkpoint open_base(const Common& common, TrainFlags& flags);

// How errors name the recipe that the flags make: "recipe pabee on RTE with these flags".
[[nodiscard]] std::string place_of(const TrainFlags& flags, const std::string& task);

// The rows that the flags name.
[[nodiscard]] LoadedData load_rows(const Common& common, const TrainFlags& flags, const Checkpoint& model);

// How `recipe` is run with these flags on these rows. SIGTERM and the first Ctrl-C end the run at the next step.
// `common` outlives the options.
struct Planned {
  TrainOptions options;
  std::string adapted;  // the notice of settings that follow from model and data, or empty
};
[[nodiscard]] Planned plan_training(const Common& common, const TrainFlags& flags, const Recipe& recipe,
                                    const LoadedData& loaded, const ModelSpec& spec);

}  // namespace exeunt::apps
