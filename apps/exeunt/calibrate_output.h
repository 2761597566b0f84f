// SPDX-License-Identifier: Apache-2.0
// What a calibration found, as `exeunt calibrate` and `exeunt train` show it.
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/certify/calibrate_model.h"

namespace exeunt::apps {

// Scores by their names; null where one is no number.
[[nodiscard]] OrderedJson metrics_json(const std::vector<Score>& metrics);

void print_calibrated(const Calibrated& done);
[[nodiscard]] OrderedJson calibrated_json(const Calibrated& done);

}  // namespace exeunt::apps
