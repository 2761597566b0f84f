// SPDX-License-Identifier: Apache-2.0
// The results of a calibration as JSON, for the command and for other languages.
#pragma once

#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/certify/calibrate.h"

namespace exeunt {

[[nodiscard]] OrderedJson outcome_json(const DropOutcome& outcome);
[[nodiscard]] OrderedJson trials_json(const std::vector<FamilyTrial>& trials);

}  // namespace exeunt
