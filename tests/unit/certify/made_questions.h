// SPDX-License-Identifier: Apache-2.0
// A population of questions with candidates, whose true risk of losing the best two is known.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "exeunt/policy/replay.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {

inline const std::vector<float> kValues{9, 6, 3, 1};

// Questions of four candidates that leave together: how far the second exit of three is from the first tells where.
struct Level {
  double share, changed;  // share of these questions whose best two the second exit does not find
  float gap;
};
inline const std::vector<Level> kLevels{{0.5, 0, 0.1F}, {0.3, 0.34, 1}, {0.2, 0.5, 4}};

inline void add_question(ExitTrace& trace, const Level& level, bool changed, uint64_t cluster) {
  for (size_t i = 0; i < kValues.size(); ++i) {
    const float second = kValues[changed ? kValues.size() - 1 - i : i] - 0.5F;
    for (const float value : {second + level.gap, second, kValues[i]}) trace.logits.push_back(value);
    trace.gold.push_back(NAN);
    trace.lengths.push_back(10);
    trace.index.push_back(static_cast<int64_t>(trace.rows++));
    trace.cluster.push_back(cluster);
  }
}

// Each question as often as `copies`, for itself.
inline ExitTrace draw_questions(size_t count, uint64_t seed, size_t copies = 1) {
  ExitTrace trace = random_trace({.rows = 0, .exits = 3, .classes = 1});
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit;
  for (size_t question = 0; question < count; ++question) {
    double left = unit(random);
    size_t level = 0;
    while (level + 1 < kLevels.size() && left >= kLevels[level].share) left -= kLevels[level++].share;
    const bool changed = unit(random) < kLevels[level].changed;
    for (size_t copy = 0; copy < copies; ++copy) add_question(trace, kLevels[level], changed, question * copies + copy);
  }
  return trace;
}

inline double risk_of_questions(const PolicySpec& policy) {
  double risk = 0;
  for (const Level& level : kLevels) {
    ExitTrace one = draw_questions(0, 0);
    add_question(one, level, false, 0);
    if (replay(one, policy).exit[0] < 2) risk += level.share * level.changed;
  }
  return risk;
}

}  // namespace exeunt
