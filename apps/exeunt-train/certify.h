// SPDX-License-Identifier: Apache-2.0
// How a training ends: with a promise on the engine that will serve the model, which LibTorch's pass cannot give. The
// command `exeunt calibrate`, a program of its own, tests it on the rows that were held out.
#pragma once

#include <string>

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/base/json.h"
#include "exeunt/train/inputs.h"

namespace exeunt::apps {

// The loss to certify with so many held-out rows, as --max-drop takes it: the one asked for, else the smaller of 2 and
// 5 % that they suffice for. Empty where they do not, or where the flags leave the promise to the user.
[[nodiscard]] std::string budget_for(const TrainFlags& flags, size_t rows);

// Refuses --thresholds, before anything is trained, that 'exeunt calibrate' would not take. Throws Error (usage).
void require_thresholds_fit(const TrainFlags& flags, const OutputSpec& outcome);

// Certifies the model of --out, and says what is next; where rows are too few, only that. Returns what the command
// printed with --json, else null. A certificate that fails is a notice: the model is trained all the same.
OrderedJson certify_trained(const Common& common, const TrainFlags& flags, size_t rows);

}  // namespace exeunt::apps
