// SPDX-License-Identifier: Apache-2.0
// What a calibration found, as `exeunt calibrate` and `exeunt train` show it.
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/certify/calibrate_model.h"

namespace exeunt::apps {

// What was gained, what is promised, and how each budget's policy did on texts that chose nothing.
void print_certified(const CertifiedChoice& done, const PolicyScore& full, const std::vector<PolicyScore>& early);
// Null where it was not measured.
[[nodiscard]] OrderedJson speedup_json(const CertifiedChoice& done, size_t budget = 0);

void print_calibrated(const Calibrated& done, bool verbose);
[[nodiscard]] OrderedJson calibrated_json(const Calibrated& done);

}  // namespace exeunt::apps
