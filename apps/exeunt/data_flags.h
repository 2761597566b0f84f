// SPDX-License-Identifier: Apache-2.0
// The flags by which every verb names its data: a GLUE or ELUE task and folder, or a file of the user's own.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "exeunt/tasks/dataset.h"
#include "exeunt/tasks/own_data.h"

namespace exeunt::apps {

struct DataFlags {
  std::string task, data, split = "dev";
  OwnColumns columns;
  std::string labels;  // comma-separated
  bool regression = false;
  int64_t limit = 0;  // 0 = all rows
};

void add_data_flags(CLI::App& verb, DataFlags& flags);

// Reads what the flags name. Throws Error: usage if neither a task nor a file is named.
[[nodiscard]] Dataset load_data(const DataFlags& flags);

// "1%" or "0.01": above 0 and below 1. Throws Error (usage) that names the flag.
[[nodiscard]] double share_of(std::string_view text, std::string_view flag);

// "a,b,c" without blanks around the names.
[[nodiscard]] std::vector<std::string> comma_list(std::string_view text);

}  // namespace exeunt::apps
