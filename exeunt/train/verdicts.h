// SPDX-License-Identifier: Apache-2.0
// What the scores of a finished run mean for whoever trained it. No torch here.
#pragma once

#include <string>
#include <vector>

#include "exeunt/train/inputs.h"

namespace exeunt {

// `results` is what all_results.json holds.

// One sentence each: a fit that is not finished, an exit that is better than the last one.
[[nodiscard]] std::vector<std::string> verdicts_on(const OrderedJson& results, const TrainingData& data);

// That the network loses to a linear model or a majority class, and what to do; empty where it does not.
[[nodiscard]] std::string lost_to_baseline(const OrderedJson& results, const TrainingData& data);

}  // namespace exeunt
