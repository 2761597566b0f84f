// SPDX-License-Identifier: Apache-2.0
// What a training is about to do, in a few lines for the user.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/exeunt-train/train.h"
#include "exeunt/train/stage_plan.h"

namespace exeunt::apps {

struct Planned {
  const TrainFlags& flags;
  const Checkpoint& model;
  const Loaded& loaded;
  const TrainOptions& options;
};

// "2280 to learn from, 300 to evaluate".
[[nodiscard]] std::string rows_text(const Loaded& loaded);

// Names and values: model, data, recipe, steps, device and where it all goes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> summary_of(const Planned& what, const RunStart& start);

}  // namespace exeunt::apps
