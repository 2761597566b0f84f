// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/auto_flags.h"

#include <fmt/format.h>

namespace exeunt::apps {

std::shared_ptr<const AutoFlags> add_auto_flags(CLI::App& verb) {
  constexpr const char* kGroup = "With --recipe auto, which compares recipes and keeps the best";
  const auto flags = std::make_shared<AutoFlags>();
  verb.add_option_function<std::string>(
          "--try", [flags](const std::string& text) { flags->try_recipes = text; },
          fmt::format("Recipes to compare, comma-separated (default {})", kAutoRecipes))
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--target-speedup", [flags](const std::string& text) { flags->target_speedup = text; },
          fmt::format("Keep the most accurate at this speed-up in layers; else --max-drop (default {}) is the loss to "
                      "compare by",
                      kAutoDrop))
      ->type_name("3x")
      ->group(kGroup);
  return flags;
}

}  // namespace exeunt::apps
