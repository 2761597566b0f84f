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

// What needs LibTorch is in a separate program, exeunt-train, so that every other verb starts fast; `exeunt launch
// --nproc N train …` runs several processes of it, which train one model together. If one dies it is named, the others
// are ended at once, and its status is returned. SIGTERM and SIGINT are passed on. Throws Error (usage).
int launch(int argc, char** argv);

// Help needs no trainer: the command knows its flags.
[[nodiscard]] bool asks_for_help(int argc, char** argv) noexcept;

// Calls `act`, and turns whatever it throws into a message on stderr and an exit status.
int guarded(const std::function<int()>& act);

}  // namespace exeunt::apps
