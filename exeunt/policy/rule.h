// SPDX-License-Identifier: Apache-2.0
// The parts of an exit rule. A rule is a struct of static members in a file under rules/: its name, its
// parameters, and `leave`, an inline function of evidence and a few floats of state. rules/list.h lists them all.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "exeunt/outputs/evidence.h"

namespace exeunt {

// A rule's index in rules/list.h, e.g. rule_of<EntropyRule>.
enum class Rule : uint8_t {};

inline constexpr int kMaxParams = 6;
inline constexpr int kMaxPatience = 1000;

enum class ParamKind { number, whole, word };

struct ParamInfo {
  std::string_view name;
  ParamKind kind = ParamKind::number;
  float low = 0, high = 1;                       // both included
  bool keyed = false;                            // written name=value, and optional
  float absent = 0;                              // the default if it is missing
  std::span<const std::string_view> words = {};  // kind word: the value is an index into these
};

// The meaning of values given per exit: a threshold instead of params[0], or a weight (default 1).
enum class PerExit { none, threshold, weight };

inline constexpr ParamInfo kWeightParam{.name = "weight", .low = 0, .high = 1e6F};

// What a rule knows of the model it is bound to.
struct ModelTraits {
  Problem problem = Problem::classification;
  int classes = 2;
  bool lte = false;
};

using Params = std::array<float, kMaxParams>;

// What calibration needs to know to propose settings.
struct Scope {
  int classes = 2;
  int exits = 1;    // evaluated
  float range = 0;  // of regression labels
  Problem problem = Problem::classification;

  // The largest entropy of an answer: that of C classes, or of sets of L labels.
  [[nodiscard]] double most_entropy() const {
    return problem == Problem::multi_label ? classes * std::log(2.0) : std::log(classes);
  }
};

// Rounded to four significant digits: people read, type and compare settings, and 0.2481 chooses as well as 0.24808498.
[[nodiscard]] inline double round_significant(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double digits = 3 - std::floor(std::log10(std::fabs(value)));
  const double scale = std::pow(10.0, std::fabs(digits));
  return digits >= 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

// `count` values above 0 up to `top`, close together near 0, where small budgets live. Doubles, so that what a rule
// computes from them still rounds to the float of few digits.
[[nodiscard]] inline std::vector<double> cubic_grid(double top, int count) {
  std::vector<double> values;
  for (int i = 1; i <= count; ++i) {
    const double share = static_cast<double>(i) / count;
    values.push_back(round_significant(top * share * share * share));
  }
  return values;
}

// Candidates for calibration: thresholds up to `top`; thresholds below 1, in the seven digits a float has there;
// thresholds each with a patience of up to four exits.
[[nodiscard]] inline std::vector<Params> thresholds_up_to(double top) {
  std::vector<Params> out;
  for (const double value : cubic_grid(top, 200)) out.push_back({static_cast<float>(value)});
  return out;
}
[[nodiscard]] inline std::vector<Params> thresholds_below_one() {
  std::vector<Params> out;
  for (const double value : cubic_grid(1, 200))
    out.push_back({static_cast<float>(std::round((1 - value) * 1e7) / 1e7)});
  return out;
}
[[nodiscard]] inline std::vector<Params> thresholds_with_patience(double top, int exits) {
  std::vector<Params> out;
  for (int t = 1; t <= 4 && t < exits; ++t)
    for (const double value : cubic_grid(top, 60)) out.push_back({static_cast<float>(value), static_cast<float>(t)});
  return out;
}

// A rule's parameters at one exit.
struct RuleArgs {
  const float* params;  // [kMaxParams]
  float exit_value;     // this exit's threshold or weight
  int nth;              // which of the evaluated exits this is, from 0
};

// What a rule compares at an exit, to show it: a field of the evidence, the number of exits in a row that agree, or
// nothing.
struct Measure {
  float Evidence::*field = nullptr;
  bool streak = false;
};

// The most floats of state that a rule may keep of a text whose policy evaluates `exits` exits: a window over all of
// them and a few counters. Replay and the GPU reserve this much, so bind() checks every rule against it.
EXEUNT_HOST_DEVICE constexpr int max_rule_state(int exits) {
  return exits + 8;
}

inline constexpr int kEveryExit = -1;
inline constexpr int kLastExit = -2;

// Defaults; a rule redefines what differs.
struct RuleDefaults {
  static constexpr PerExit kPerExit = PerExit::none;
  static constexpr bool kReadsShift = false;
  static constexpr Measure kMeasure = {};
  static constexpr bool kUsual = false;  // calibration tries it by default

  // Floats of state per text, all zero at its start; at most max_rule_state(exits).
  static int state_floats(const float*, int) noexcept { return 0; }
  // The only layer that can answer with these parameters: kLastExit, a layer from 0, or kEveryExit.
  static int sole_layer(const float*) noexcept { return kEveryExit; }
  // The first of the evaluated exits, from 0, at which a text may leave: at the earliest.
  static int first_exit(const float*) noexcept { return 0; }
  // Settings that calibration may choose from; none = it cannot calibrate this rule.
  static std::vector<Params> candidates(const Scope&) { return {}; }
  // Does another rule rank texts the same way with this many classes? Then it is enough to try one of them.
  static bool repeats_another(int) noexcept { return false; }
  // Fills in what depends on the model.
  static void settle(float*, const ModelTraits&) noexcept {}
  // Why these parameters contradict each other; empty if they do not.
  static std::string_view conflict(const float*) noexcept { return {}; }
  // Why the rule does not suit the model; empty if it does.
  static std::string_view misfit(const float*, const ModelTraits& traits) noexcept {
    return traits.problem == Problem::regression ? "it reads class probabilities, and the model predicts one number"
                                                 : std::string_view{};
  }
};

}  // namespace exeunt
