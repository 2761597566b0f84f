// SPDX-License-Identifier: Apache-2.0
// What needs LibTorch is in a separate program, exeunt-train, so that every other verb starts fast.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"

namespace exeunt::apps {

// Help needs no trainer: the command knows its flags.
[[nodiscard]] bool asks_for_help(int argc, char** argv) noexcept;

// It is next to the command or in ../libexec/exeunt; empty if it is in neither.
[[nodiscard]] std::filesystem::path find_trainer();

// Becomes exeunt-train with the same arguments. Throws Error.
[[noreturn]] void start_trainer(char** argv);

// Starts exeunt-train with `arguments` (after the program's name) and waits for it; Ctrl-C is left to it, which saves a
// checkpoint. With `silent` its table of results is not shown. Returns its exit status. Throws Error.
int run_trainer(const std::vector<std::string>& arguments, bool silent);

// So that the command can explain and complete the verb.
void add_train(CommandLine& line);

}  // namespace exeunt::apps
