// SPDX-License-Identifier: Apache-2.0
// What `exeunt train` chooses where the user names nothing, so that a file of texts is enough.
#pragma once

#include <cstdint>
#include <string>

#include "apps/exeunt/train_flags.h"

namespace exeunt::apps {

// --model becomes the one shipped with the program (or $EXEUNT_MODEL), --out runs/ and the name of the data. Throws
// Error (usage) where there is none.
void complete(TrainFlags& flags);

// A model of less width than the recipes were made for, taken because no other was named, learns faster and longer;
// what the user set stays. Returns the flags this stands for, or nothing.
[[nodiscard]] std::string suit_narrow(TrainFlags& flags, int width);

// What to do with a run whose data gave `rows` rows to certify with.
[[nodiscard]] std::string next_step(const std::string& out, size_t rows);

}  // namespace exeunt::apps
