// SPDX-License-Identifier: Apache-2.0
// What the flags of `exeunt train` make of a recipe.
#pragma once

#include <string>

#include "apps/exeunt/train_flags.h"
#include "exeunt/base/json.h"

namespace exeunt::apps {

// The recipe for so many training pairs (0: single texts), with everything the flags change. `task` is the task's name
// in the table, or empty. Throws Error.
[[nodiscard]] Json effective_recipe(const TrainFlags& flags, const std::string& task, int64_t pairs);

// Settings of --preset reference, the same for every recipe, put into flags that were not given.
void apply_preset(TrainFlags& flags, const std::string& task, bool regression);

}  // namespace exeunt::apps
