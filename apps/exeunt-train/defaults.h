// SPDX-License-Identifier: Apache-2.0
// What `exeunt train` chooses where the user names nothing, so that a file of texts is enough; and what to do next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/exeunt/train_flags.h"

namespace exeunt::apps {

// --model becomes the one shipped with the program (or $EXEUNT_MODEL), --out runs/ and the name of the data. Throws
// Error (usage) where there is none.
void complete(TrainFlags& flags);

// How many held-out rows it takes for 'exeunt calibrate' to certify this loss, if none is lost: it tests on a part of
// them.
[[nodiscard]] size_t held_out_for(double drop);

// What to do with a run of the user's own data that gave `rows` rows to certify with, one notice each. A budget is
// named only where so many rows can certify it and it is of use; else how many it takes.
[[nodiscard]] std::vector<std::string> next_steps(const TrainFlags& flags, size_t rows);

}  // namespace exeunt::apps
