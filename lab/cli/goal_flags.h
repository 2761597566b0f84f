// SPDX-License-Identifier: Apache-2.0
// The flags that say what exit policies are for, a speed to reach or a loss not to exceed, and how the answer is shown.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "lab/choose/recommend.h"

namespace exeunt::apps {

struct GoalFlags {
  std::string speedup, max_drop, loss;
  double confidence = 0.95;
  bool by_time = false;

  [[nodiscard]] bool given() const noexcept { return !speedup.empty() || !max_drop.empty(); }
};

void add_goal_flags(CLI::App& verb, GoalFlags& flags);

// Throws Error (usage): neither or both of the two, or a number that is none.
[[nodiscard]] Goal goal_of(const GoalFlags& flags);

// What to use, the table of all that was tried, and why.
void print_recommendation(const Recommendation& what, std::span<const RunOnTrial> runs, const Goal& goal,
                          Asker asker = Asker::recommend);

}  // namespace exeunt::apps
