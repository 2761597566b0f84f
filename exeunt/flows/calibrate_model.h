// SPDX-License-Identifier: Apache-2.0
// From a model and a budget to a certified policy in its policy.json, and how that policy did on rows that chose
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/exits/calibrate.h"
#include "exeunt/flows/measure.h"

namespace exeunt {

struct CalibrateOptions {
  MeasureOptions run = {};
  // File of unlabelled texts, in addition to the data or instead of it: disagreement needs no labels.
  std::string unlabelled = {};
  CalibrationPlan plan = {};  // the range of regression labels is filled in
  std::string group = {};     // label, length, or a column of the data: certified in each group, too
  bool report = true;         // keep rows that measure the result; else they help to certify
  uint64_t seed = 42;
  std::string out = {};  // policy file; empty = the model's own
};

struct Calibrated {
  std::filesystem::path out = {};
  CalibrationData data = {};
  Calibration calibration = {};
  // On the report part (the certify part if there is none): full depth, then the policy of every budget.
  std::vector<PolicyScore> scores = {};
};

// Throws Error, as measure() and calibrate() do; (resources) if somebody else calibrates the model.
[[nodiscard]] Calibrated calibrate_model(const CalibrateOptions& options, const Observer& observer);

}  // namespace exeunt
