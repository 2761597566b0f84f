// SPDX-License-Identifier: Apache-2.0
// `exeunt pretrain`: flags to a corpus and options; the rest is exeunt/train.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

void add_pretrain(CommandLine& line);

}  // namespace exeunt::apps
