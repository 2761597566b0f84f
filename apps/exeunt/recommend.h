// SPDX-License-Identifier: Apache-2.0
// `exeunt recommend`: which exit policy, and of which run, for the speed or the loss that is asked for.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

void add_recommend(CommandLine& line);

}  // namespace exeunt::apps
