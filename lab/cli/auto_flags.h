// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt train --recipe auto` and of `exeunt pretrain`; like those of `train` they need no LibTorch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "lab/pretrain/pretrain_settings.h"

namespace exeunt::apps {

inline constexpr std::string_view kAuto = "auto";
inline constexpr const char* kAutoRecipes = "plain,elasticbert,romebert-sd,exeunt";
inline constexpr const char* kAutoDrop = "1%";

struct AutoFlags {
  std::string try_recipes, target_speedup;  // empty = the defaults
};

// Adds them to the verb `train`, which keeps them.
std::shared_ptr<const AutoFlags> add_auto_flags(CLI::App& verb);

struct PretrainFlags : PretrainSettings {
  std::string model, out;
  std::vector<std::string> data;
  bool scratch = false;
  int layers = 0, hidden = 0, heads = 0, inner = 0;  // with scratch; 0 = as the model has them
};

// Adds the verb `pretrain`. The command declares it, so that it knows its help; the trainer runs it.
void add_pretrain_verb(CommandLine& line, std::function<void(const PretrainFlags&)> run);

}  // namespace exeunt::apps
