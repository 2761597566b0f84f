// SPDX-License-Identifier: Apache-2.0
// Other thresholds for a multi-label model.
#pragma once

#include <string_view>
#include <vector>

#include "exeunt/model/checkpoint.h"

namespace exeunt {

// The same multi-label model with other logit thresholds (outputs/evidence.h). Throws Error.
[[nodiscard]] Checkpoint with_logit_thresholds(const Checkpoint& model, std::vector<float> logit_thresholds);

// The model with the thresholds of `text`, as parse_thresholds() takes them; as it is, if that is empty. Throws Error
// (usage), also for a model that gives one answer.
[[nodiscard]] Checkpoint with_thresholds(const Checkpoint& model, std::string_view text);

}  // namespace exeunt
