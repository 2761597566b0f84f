// SPDX-License-Identifier: Apache-2.0
// The user's data: CSV (RFC 4180), TSV (no quoting) or JSONL, with the columns the user names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/tasks/dataset.h"

namespace exeunt {

enum class UserFormat { csv, tsv, jsonl };

struct UserColumns {
  std::string text = "text";
  std::string pair;             // empty: one text per row
  std::string label = "label";  // empty: no labels, gold is NaN
  // Left open, the problem is a regression if every label is a number and one of them is not whole.
  std::optional<bool> regression;
  // In index order. Left empty they are inferred: all that occur, by value if all are whole numbers, else by bytes.
  std::vector<std::string> labels;
  std::optional<UserFormat> format;  // left open: by the file's ending, .csv .tsv .jsonl .ndjson
  char separator = ',';              // of CSV
};

// Empty lines are passed over; rows whose text is blank are left out, counted and said in the notices, as no answer can
// be right for them; columns that are not named are ignored. Throws Error bad_file with line and column.
[[nodiscard]] Dataset read_user_data(const std::filesystem::path& path, const UserColumns& columns,
                                     const OnBadRow& on_bad_row = {});

// Which columns a file was read by, as a trained model keeps it: {"text", "label"}, and "pair" and "separator" where
// they are not the usual ones. What is not there or not a text is left as it is.
[[nodiscard]] OrderedJson columns_json(const UserColumns& columns);
[[nodiscard]] UserColumns columns_from(const Json& stored);

// read_user_data() over bytes in memory; `columns.format` must be set. `where` opens error messages.
[[nodiscard]] Dataset parse_user_data(std::string_view bytes, const std::string& where, const UserColumns& columns,
                                      const OnBadRow& on_bad_row = {});

}  // namespace exeunt
