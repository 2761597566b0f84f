// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/goal_flags.h"

#include <fmt/format.h>

#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt::apps {
namespace {

constexpr double kMostSpeedup = 1000;

// "3x" or "3": above 1.
double ratio_of(std::string_view text) {
  const auto value = number_of<double>(text.substr(0, text.size() - (text.ends_with('x') ? 1 : 0)));
  if (!value || *value <= 1 || *value > kMostSpeedup) {
    throw Error(Code::usage,
                fmt::format("--target-speedup: got '{}', want a number above 1 and up to {:g}", text, kMostSpeedup),
                "for example 3x or 1.5");
  }
  return *value;
}

}  // namespace

void add_goal_flags(CLI::App& verb, GoalFlags& flags) {
  const OptionGroup group(verb, "Target");
  verb.add_option("--target-speedup", flags.speedup, "Speed-up over full depth to reach with the least loss");
  verb.add_option("--max-drop", flags.max_drop, "Maximum loss against full depth, at the highest speed");
  verb.add_option("--confidence", flags.confidence, "With --max-drop: confidence of the certificate")
      ->check(number_in(0.5, 0.999999))
      ->capture_default_str();
  verb.add_option("--loss", flags.loss, loss_help());
  verb.add_flag("--by-time", flags.by_time, "Measure speed in predicted milliseconds (profile.json) instead of layers");
}

Goal goal_of(const GoalFlags& flags) {
  if (flags.speedup.empty() == flags.max_drop.empty()) {
    throw Error(Code::usage,
                flags.max_drop.empty() ? "got no target, want a speed-up or a maximum loss"
                                       : "got both --target-speedup and --max-drop, want one of them",
                "--target-speedup 3x, or --max-drop 0.5%");
  }
  Goal goal;
  if (!flags.speedup.empty()) goal.speedup = ratio_of(flags.speedup);
  if (!flags.max_drop.empty()) goal.max_drop = share_of(flags.max_drop, "--max-drop");
  goal.confidence = flags.confidence;
  if (!flags.loss.empty()) goal.loss = loss_named(flags.loss);
  goal.timed = flags.by_time;
  return goal;
}

void print_recommendation(const Recommendation& what, std::span<const RunOnTrial> runs, const Goal& goal, Asker asker) {
  const RecommendationText text = explained(what, runs, goal, asker);
  fmt::print("{}\n\n", text.verdict);
  print_table(text.header, text.rows);
  fmt::print("\n");
  for (const std::string& line : text.notes) fmt::print("{}\n", line);
}

}  // namespace exeunt::apps
