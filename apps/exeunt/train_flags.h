// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt train`. They need no LibTorch, so that the command itself can explain and complete them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"

namespace exeunt::apps {

inline constexpr const char* kAutoRecipes = "plain,elasticbert,romebert-sd,exeunt";
inline constexpr const char* kAutoDrop = "1%";

struct TrainFlags : ColumnFlags {
  std::string recipe = "exeunt", model, out;
  // Data.
  std::string task, data, eval_data, train_features, eval_features;
  std::string hold_out = "30%";
  std::vector<std::string> also;  // NAME=FILE
  int64_t limit = 0;
  int max_length = 128;
  // The recipe's numbers, for all its stages; unset = the recipe's own.
  std::optional<double> lr, head_lr, layer_lr, epochs, weight_decay, warmup, clip, temperature, learned_lr,
      learned_init;
  std::optional<int> batch, eval_every, early_stop;
  std::optional<std::string> keep_best;
  std::vector<std::string> set;
  std::string preset;
  bool as_written = false;
  int layers = 0;
  // The run.
  std::optional<int64_t> seed;
  int64_t max_steps = 0;
  int accumulation = 1, window = 50, log_every = 50, save_every = 500, keep_checkpoints = 2, threads = 0;
  double adam_epsilon = 1e-8, warmup_steps = -1;
  std::string device = "auto", precision = "fp32";
  bool resume = false, overwrite = false, no_graphs = false, trace = false;
  // Of the recipe auto; empty = its defaults.
  std::string try_recipes, target_speedup, max_drop;
  bool dry_run = false;
};

void add_train_flags(CLI::App& verb, TrainFlags& flags);

// The names of the recipes that come with Exeunt, as the trainer has them.
[[nodiscard]] const std::vector<std::string>& shipped_recipes();

// Adds the verb `train` with these flags. The command declares it, so that it knows its help; the trainer runs it.
void add_train_verb(CommandLine& line, std::function<void(const TrainFlags&)> run);

}  // namespace exeunt::apps
