// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt pretrain`; like those of `train` they need no LibTorch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "lab/pretrain/pretrain_settings.h"

namespace exeunt::apps {

struct PretrainFlags : PretrainSettings {
  std::string model, out;
  std::vector<std::string> data;
  bool scratch = false;
  int layers = 0, hidden = 0, heads = 0, inner = 0;  // with scratch; 0 = as the model has them
};

// Adds the verb `pretrain`. The command declares it, so that it knows its help; the trainer runs it.
void add_pretrain_verb(CommandLine& line, std::function<void(const PretrainFlags&)> run);

}  // namespace exeunt::apps
