// SPDX-License-Identifier: Apache-2.0
// `exeunt train`: flags to data, recipe and options; the rest is exeunt/train.
#pragma once

#include <string>

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/train/run.h"

namespace exeunt::apps {

void add_train_verbs(CommandLine& line);

// The model to start from, with what --layers leaves of it. Model and folder that the flags leave open are filled in.
[[nodiscard]] Checkpoint open_base(const Common& common, TrainFlags& flags);

struct Loaded {
  TrainingData data;
  std::string held_out = {};  // the file of rows to certify with; empty = none
  size_t held_out_rows = 0;   // in it
  bool own_file = false;      // the user's texts, not a task's and not features
};

// The texts or features that the flags name, every training row labelled. Throws Error.
[[nodiscard]] Loaded load_training(const Common& common, const TrainFlags& flags, const Checkpoint& model);

// The recipe of the flags, and how it is run. SIGTERM and the first Ctrl-C end it at the next step. `common` outlives
// the options.
[[nodiscard]] TrainOptions options_of(const Common& common, TrainFlags flags, const Loaded& loaded);

}  // namespace exeunt::apps
