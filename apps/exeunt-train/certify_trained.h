// SPDX-License-Identifier: Apache-2.0
// How a training ends: the trained model is certified on the engine that will serve it, as `exeunt calibrate` does it,
// on the certification split.
#pragma once

#include <optional>
#include <string>

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/base/json.h"
#include "exeunt/train/inputs.h"

namespace exeunt::apps {

struct Certification {
  std::string model = {};               // the folder that was trained
  std::optional<double> max_drop = {};  // none: the smaller of 2 and 5 % that the rows suffice for
  bool skip = false;                    // leave it to the user
  std::string thresholds = {};          // of several labels: "fit", or as parse_thresholds() takes them
  int threads = 0;
  UserColumns columns = {};  // of the data, for the commands that are named to the user
  size_t rows = 0;           // of the certification split
  double split = 0;          // its share of all rows
};

// Refuses --thresholds, before anything is trained, that 'exeunt calibrate' would not take. Throws Error (usage).
void require_thresholds_fit(const Certification& what, const OutputSpec& outcome);

// Certifies, and says what is next; where rows are too few, only that. Prints as `exeunt calibrate` does, or with
// --json returns what that prints. A certificate that fails is a notice: the model is trained all the same.
OrderedJson certify_trained(const Common& common, const Certification& what);

}  // namespace exeunt::apps
