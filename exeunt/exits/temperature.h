// SPDX-License-Identifier: Apache-2.0
// Temperature scaling: one number per exit that calibrates its probabilities, fitted by maximum likelihood.
#pragma once

#include <span>
#include <vector>

#include "exeunt/exits/trace.h"

namespace exeunt {

inline constexpr float kMinTemperature = 0.05F, kMaxTemperature = 20.0F;

// The temperature of one exit that gives `targets` (one label per row) the largest likelihood, kept within the limits
// above: an exit that is always right would drive it to zero.
[[nodiscard]] float fit_temperature(const ExitTrace& trace, int exit, std::span<const int> targets);

// One per exit; 1 everywhere for regression. Targets are the gold labels, or without them the labels of the last
// exit, which is what an early exit has to agree with.
[[nodiscard]] std::vector<float> fit_temperatures(const ExitTrace& trace);

// Mean negative log-likelihood of `targets` at one exit, in nats.
[[nodiscard]] double negative_log_likelihood(const ExitTrace& trace, int exit, std::span<const int> targets,
                                             double temperature);

// The label (argmax) of every row at one exit.
[[nodiscard]] std::vector<int> labels_at(const ExitTrace& trace, int exit);

}  // namespace exeunt
