// SPDX-License-Identifier: Apache-2.0
// Other thresholds for a model that gives several labels at once.
#pragma once

#include <string_view>
#include <vector>

#include "exeunt/model/checkpoint.h"

namespace exeunt {

// The same model of several labels with other cuts (outputs/evidence.h). Throws Error.
[[nodiscard]] Checkpoint with_cuts(const Checkpoint& model, std::vector<float> cuts);

// The model with the thresholds of `text`, as parse_cuts() takes them; as it is, if that is empty. Throws Error
// (usage), also for a model that gives one answer.
[[nodiscard]] Checkpoint with_thresholds(const Checkpoint& model, std::string_view text);

}  // namespace exeunt
