// SPDX-License-Identifier: Apache-2.0
// Temperature scaling: one number per exit that calibrates its probabilities, fitted by maximum likelihood. Exit
// decisions use temperatures fitted to the answers at full depth; users see probabilities fitted to the gold labels.
#pragma once

#include <span>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

inline constexpr float kMinTemperature = 0.05F, kMaxTemperature = 20.0F;

// The temperature T of one exit that gives `targets` (one label per row) the largest likelihood, kept within the limits
// above: an exit that is always right would drive it to zero. `shrink` (ln T)^2 is added to the sum of the log losses,
// so that few rows move it little from 1.
[[nodiscard]] float fit_temperature(const ExitTrace& trace, int exit, std::span<const int> targets, double shrink = 0);

// For decisions, one per exit: fitted to the answer at full depth (the trace's reference, else the last exit), which is
// what an early exit has to agree with, and shrunk. 1 at the last exit, which does not decide; 1 everywhere for
// regression.
[[nodiscard]] std::vector<float> decision_temperatures(const ExitTrace& trace);

// For probabilities that are shown, one per exit: fitted to the gold labels; 1 without them, for regression, and for
// several labels, whose thresholds are shares of the probabilities as they are.
[[nodiscard]] std::vector<float> score_temperatures(const ExitTrace& trace);

}  // namespace exeunt
