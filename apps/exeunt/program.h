// SPDX-License-Identifier: Apache-2.0
// What the command and the trainer share: reading the command line, running one verb, and one message per failure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"

namespace exeunt::apps {

struct Program {
  std::string name, summary;
  void (*add_verbs)(CommandLine& line);
  std::vector<std::string> examples = {};
  Extensions more = {};
  std::vector<std::string> notices = {};  // printed unless --quiet
  char** argv = nullptr;                  // of main(), for become_lab(); null: what is unknown here is an error
};

// Runs the verb that `words`, all after the program's name, begin with. Throws Error.
int run_program(const Program& program, const std::vector<std::string>& words);

// Becomes exeunt-lab, which knows more verbs, flags and formats, with the same arguments. Returns if it is not
// installed beside this program, or if it has started this one.
void become_lab(char** argv);
inline constexpr const char* kStartedByLab = "EXEUNT_STARTED_BY_LAB";

// Where another program of ours lies: beside this one, or in bin and libexec/exeunt of one prefix. Empty: nowhere.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

// The same; throws Error if it is nowhere.
[[nodiscard]] std::filesystem::path require_program(const std::string& name);

// Becomes another program of ours. Throws Error.
[[noreturn]] void become(const std::string& name, char** argv);

// Calls `act`, and turns whatever it throws into a message on stderr and an exit status.
int guarded(const std::function<int()>& act);

}  // namespace exeunt::apps
