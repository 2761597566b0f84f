// SPDX-License-Identifier: Apache-2.0
// `exeunt calibrate --transfer`: a policy that was certified on another engine, certified on this one.
#pragma once

#include "exeunt/certify/calibrate_model.h"

namespace exeunt {

// Tests the points of the certified entry at options.out (the model's policy.json) on the rows of the options, at the
// budgets, confidence, loss and unit of its certificate, and puts the outcome there as this engine's entry. The rows
// are split by the certificate's seed, so that on the same rows those that chose the policy do not certify it. Throws
// Error as calibrate_model() does; bad_file where there is no such entry.
[[nodiscard]] Calibrated transfer_policy(const CalibrateOptions& options, const Observer& observer);

}  // namespace exeunt
