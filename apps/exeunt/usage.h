// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the command line, answered with the nearest name.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "exeunt/base/error.h"

namespace exeunt::apps {

// What CLI11 found wrong, as our Error: which argument, and the nearest verb or flag where there is one.
[[nodiscard]] Error usage_error(const CLI::App& app, const std::vector<std::string>& arguments,
                                const CLI::ParseError& error);

// Prints the help of the innermost verb named on the command line. Returns the exit status.
int print_help(const CLI::App& app);

}  // namespace exeunt::apps
