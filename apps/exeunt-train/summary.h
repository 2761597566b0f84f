// SPDX-License-Identifier: Apache-2.0
// What a run is about to do, in a few lines for the user.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/exeunt-train/train.h"
#include "exeunt/train/stage_plan.h"

namespace exeunt::apps {

struct Summarized {
  const TrainFlags& flags;
  const Checkpoint& model;
  const LoadedData& loaded;
  const TrainOptions& options;
};

// "2280 to train on, 300 to evaluate on".
[[nodiscard]] std::string rows_text(const LoadedData& loaded);

// Names and values: model, data, recipe, steps, device and where it all goes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> summary_of(const Summarized& what,
                                                                          const RunStart& start);

// "45 s", "6 min", "1.5 h".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace exeunt::apps
