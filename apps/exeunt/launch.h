// SPDX-License-Identifier: Apache-2.0
// `exeunt launch --nproc N train …`: N processes of the trainer on this machine that train one model together.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

// Starts the processes and waits. If one dies it is named, the others are ended at once, and its status is returned.
// SIGTERM and SIGINT are passed on. Throws Error (usage).
int launch(int argc, char** argv);

// So that the command's help lists the verb.
void add_launch(CommandLine& line);

}  // namespace exeunt::apps
