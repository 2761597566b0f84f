// SPDX-License-Identifier: Apache-2.0
// The flags of `exeunt train --recipe auto`; like those of `train` they need no LibTorch.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace exeunt::apps {

inline constexpr std::string_view kAuto = "auto";
inline constexpr const char* kAutoRecipes = "plain,elasticbert,romebert-sd,exeunt";
inline constexpr const char* kAutoDrop = "1%";

struct AutoFlags {
  std::string try_recipes, target_speedup;  // empty = the defaults
};

// Adds them to the verb `train`, which keeps them.
std::shared_ptr<const AutoFlags> add_auto_flags(CLI::App& verb);

}  // namespace exeunt::apps
