// SPDX-License-Identifier: Apache-2.0
// Other programs, started and waited for, and where this one lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace exeunt {

// Of the program that runs; empty if the system does not say.
[[nodiscard]] std::filesystem::path program_folder();

// Memory of this process, from /proc; 0 if unknown.
[[nodiscard]] uint64_t resident_bytes();

struct ChildOptions {
  bool keep_output = false;  // read what it prints on standard output instead of letting it through
  bool alone = false;        // no standard input, and its messages are dropped
  int seconds = 0;           // with keep_output: it is killed when they are over; 0 = it may take any time
};
struct ChildEnd {
  int status = 0;  // 128 and the signal's number if one ended it
  std::string output = {};
};
// Runs words[0] with all words as its arguments and waits for it. Nothing if it cannot be started, takes longer than it
// may, or prints more than 16 MiB.
[[nodiscard]] std::optional<ChildEnd> run_child(const std::vector<std::string>& words, const ChildOptions& options);

}  // namespace exeunt
