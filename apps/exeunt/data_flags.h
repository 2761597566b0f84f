// SPDX-License-Identifier: Apache-2.0
// The flags by which every verb names its data: a GLUE or ELUE task and folder, or a file of the user's own.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "exeunt/model/spec.h"
#include "exeunt/tasks/dataset.h"
#include "exeunt/tasks/user_data.h"

namespace exeunt::apps {

inline constexpr const char* kDataGroup = "Data";  // the title of these flags in help

// What a file of the user's own holds.
struct ColumnFlags {
  UserColumns columns;
  std::string labels;  // comma-separated
  bool regression = false;

  [[nodiscard]] UserColumns chosen() const;  // `columns` with the labels and the kind of problem
};

struct DataFlags : ColumnFlags {
  std::string task, data;
  std::string split;  // of the task; empty = dev
  int64_t limit = 0;  // 0 = all rows
};

void add_column_flags(CLI::App& verb, ColumnFlags& flags);
void add_data_flags(CLI::App& verb, DataFlags& flags);

// --separator: one character, or "tab". A file that is read with it is CSV, whatever its ending.
CLI::Option* add_separator_flag(CLI::App& verb, std::function<void(char)> take);
CLI::Option* add_separator_flag(CLI::App& verb, UserColumns& columns);

// Reads what the flags name. Labels and the kind of problem that they leave open are those of `model`, where there is
// one. Throws Error: usage if neither a task nor a file is named.
[[nodiscard]] Dataset load_data(const DataFlags& flags, const ExitLayout* model = nullptr);

// The flags by which the same rows are read again, each with a blank before it; those that have their defaults are left
// out. The first are of all data, the second of a file's columns and labels alone.
[[nodiscard]] std::string data_words(const DataFlags& flags);
[[nodiscard]] std::string column_words(const ColumnFlags& flags);

// "1%" or "0.01": above 0 and below 1. Throws Error (usage) that names the flag.
[[nodiscard]] double share_of(std::string_view text, std::string_view flag);

// "a,b,c" without blanks around the names.
[[nodiscard]] std::vector<std::string> comma_list(std::string_view text);

}  // namespace exeunt::apps
