// SPDX-License-Identifier: Apache-2.0
// `exeunt train`: flags to data, recipe and options; the rest is exeunt/train.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

void add_train_verbs(CommandLine& line);

}  // namespace exeunt::apps
