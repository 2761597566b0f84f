// SPDX-License-Identifier: Apache-2.0
// What `exeunt train` chooses where the user names nothing, so that a file of texts is enough.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/exeunt/train_flags.h"

namespace exeunt::apps {

// --model becomes the one shipped with the program (or $EXEUNT_MODEL), --out runs/ and the name of the data. Throws
// Error (usage) where there is none.
void complete(TrainFlags& flags);

// A model of less width than the recipes that come with Exeunt were made for learns next to nothing at their rates: it
// learns faster and longer. Whoever names a rate himself (by flag, preset, --set or a recipe file of his own) or asks
// for the recipe as it is written keeps that, and epochs that are named stay. Returns the flags this stands for, or
// nothing.
[[nodiscard]] std::string suit_narrow(TrainFlags& flags, int width);

// The notice of it.
[[nodiscard]] std::string narrow_text(int width, const std::string& changed);

// What to do with a run of the user's own data that gave `rows` rows to certify with, one notice each. A budget is
// named only where so many rows can certify it and it is of use; else how many it takes.
[[nodiscard]] std::vector<std::string> next_steps(const TrainFlags& flags, size_t rows);

}  // namespace exeunt::apps
