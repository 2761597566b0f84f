// SPDX-License-Identifier: Apache-2.0
// What a run is about to do, in a few lines for the user.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/exeunt-train/train.h"
#include "exeunt/train/stage_plan.h"

namespace exeunt::apps {

// "2280 train, 300 validation, 600 certification (held-out.csv)".
[[nodiscard]] std::string split_text(const LoadedData& loaded);

// A line for each value of the plan, with its source: "lr", "0.0005 (data default)".
using NamesAndTexts = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] NamesAndTexts value_rows(const TrainPlan& plan);

// "a narrow model (hidden size 16): lr 0.0005, epochs 8"; empty where no value follows model and data.
[[nodiscard]] std::string data_defaults_text(const TrainPlan& plan);

// Model, data, recipe, values, steps, device and where it all goes.
[[nodiscard]] NamesAndTexts summary_of(const TrainJob& job, const TrainPlan& plan, const RunStart& start);

}  // namespace exeunt::apps
