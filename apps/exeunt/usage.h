// SPDX-License-Identifier: Apache-2.0
// The command line before and after parsing: old spellings made new, and slips answered with the nearest name.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "exeunt/base/error.h"

namespace exeunt::apps {

struct Arguments {
  std::vector<std::string> words;    // after the program's name
  std::vector<std::string> notices;  // one line for each old name
};

// In flag names, '_' becomes '-' (`--max_length` is `--max-length`), and the originals' names become ours.
[[nodiscard]] Arguments normalised_arguments(int argc, char** argv);

// What CLI11 found wrong, as our Error: which argument, and the nearest verb or flag where there is one.
[[nodiscard]] Error usage_error(const CLI::App& app, const std::vector<std::string>& arguments,
                                const CLI::ParseError& error);

// Prints the help of the innermost verb named on the command line. Returns the exit status.
int print_help(const CLI::App& app);

}  // namespace exeunt::apps
