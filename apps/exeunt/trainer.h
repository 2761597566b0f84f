// SPDX-License-Identifier: Apache-2.0
// What needs LibTorch is in a separate program, exeunt-train, so that every other verb starts fast; `exeunt launch
// --nproc N train …` runs several processes of it, which train one model together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"

namespace exeunt::apps {

// Help needs no trainer: the command knows its flags.
[[nodiscard]] bool asks_for_help(int argc, char** argv) noexcept;

// So that the command can explain and complete the verb.
void add_train(CommandLine& line);

// Starts the processes and waits. If one dies it is named, the others are ended at once, and its status is returned.
// SIGTERM and SIGINT are passed on. Throws Error (usage).
int launch(int argc, char** argv);

// So that the command's help lists the verb.
void add_launch(CommandLine& line);

}  // namespace exeunt::apps
