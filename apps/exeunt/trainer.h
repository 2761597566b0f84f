// SPDX-License-Identifier: Apache-2.0
// The verbs that need LibTorch live in a program of their own, exeunt-train, so that every other verb starts at once.
#pragma once

#include <string_view>

#include "apps/exeunt/command.h"

namespace exeunt::apps {

[[nodiscard]] bool is_trainers_verb(std::string_view verb) noexcept;  // "train"

// Becomes exeunt-train with the same arguments. It lies beside the command or in ../libexec/exeunt. Throws Error.
[[noreturn]] void start_trainer(char** argv);

// So that the command's help lists the verb.
void add_train(CommandLine& line);

}  // namespace exeunt::apps
