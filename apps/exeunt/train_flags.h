// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt train`. They need no LibTorch, so that the command itself can explain and complete them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "exeunt/recipes/recipe.h"
#include "exeunt/recipes/settings.h"

namespace exeunt::apps {

struct TrainFlags : ColumnFlags, TrainSettings {
  std::string recipe = "exeunt", model, out;
  int layers = 0;
  // Data.
  std::string task, data, eval_data, train_features, eval_features;
  std::string hold_out = "30%";
  std::vector<std::string> also;  // NAME=FILE
  int64_t limit = 0;
  int max_length = 0;  // by the texts
  // What changes in the recipe.
  RecipeChanges changes;
  std::string preset;
  bool as_written = false;
  std::string target_speedup;  // of a program that compares recipes by it: nothing is certified then
  std::string max_drop;        // to certify at the end
  bool no_calibrate = false;   // leave that to the user
  std::string thresholds;      // multi-label: as 'exeunt calibrate' takes them
  std::string budget;          // time to train; empty = as long as it takes
  bool dry_run = false;
};

void add_train_flags(CLI::App& verb, TrainFlags& flags);

// Adds the verb `train` with these flags. The command declares it, so that it knows its help; the trainer runs it.
void add_train_verb(CommandLine& line, std::function<void(const TrainFlags&)> run);

}  // namespace exeunt::apps
