// SPDX-License-Identifier: Apache-2.0
// What the command and the trainer share: reading the command line, running one verb, and one message per failure.
#pragma once

#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "exeunt/originals/flags.h"

namespace exeunt::apps {

struct Program {
  std::string name, summary;
  void (*add_verbs)(CommandLine& line);
  std::vector<std::string> examples = {};
};

// Runs the verb that `arguments` name. Throws Error.
int run_program(const Program& program, const Arguments& arguments);

// Calls `act`, and turns whatever it throws into a message on stderr and an exit status.
int guarded(const std::function<int()>& act);

}  // namespace exeunt::apps
