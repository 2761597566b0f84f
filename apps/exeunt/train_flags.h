// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt train`. They need no LibTorch, so that the command itself can explain and complete them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "exeunt/recipes/train_plan.h"

namespace exeunt::apps {

// Where the rows come from.
struct TrainDataFlags : ColumnFlags {
  std::string task, data, eval_data, train_features, eval_features;
  double hold_out = 0.3;          // share of the rows
  std::vector<std::string> also;  // NAME=FILE
  int64_t limit = 0;
  int max_length = 0;  // by the texts
};

// How the trained model is certified.
struct CertifyFlags {
  std::optional<double> max_drop;  // the loss; none = by the rows
  bool no_calibrate = false;       // leave that to the user
  bool no_exit_0 = false;          // no exit before the first layer
  std::string thresholds;          // multi-label: as 'exeunt calibrate' takes them
};

struct TrainFlags {
  std::string model, out;
  int layers = 0;
  TrainDataFlags rows;
  PlanRequest plan;  // recipe, settings and time limit
  CertifyFlags certify;
  bool dry_run = false;
};

void add_train_flags(CLI::App& verb, TrainFlags& flags);

// Adds the verb `train` with these flags. The command declares it, so that it knows its help; the trainer runs it.
void add_train_verb(CommandLine& line, std::function<void(const TrainFlags&)> run);

}  // namespace exeunt::apps
