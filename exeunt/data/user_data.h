// SPDX-License-Identifier: Apache-2.0
// The user's data: CSV (RFC 4180), TSV (no quoting) or JSONL, with the columns the user names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/data/dataset.h"
#include "exeunt/data/rows.h"

namespace exeunt {

inline constexpr std::string_view kNoCluster = "none";

struct UserColumns {
  std::string text = "text";
  std::string pair;             // empty: one text per row
  std::string label = "label";  // empty: no labels, gold is NaN
  // By default a regression if every label is a number and at least one has a fraction (0.0 and 1.0 are two classes),
  // else one label per row. multi_label: a list in JSONL, "a|b" in tables, or label_columns.
  std::optional<Problem> problem;
  // In index order. By default all that occur, by value if all are integers, else by bytes.
  std::vector<std::string> labels;
  std::optional<DataFormat> format;             // default: by the file extension, .csv .tsv .jsonl .ndjson
  std::vector<std::string> label_columns = {};  // multi_label: a column for each label, with 1 or 0, instead of `label`
  char separator = ',';                         // of CSV
  std::string cluster = {};                     // column of Example::cluster; empty: none, kNoCluster: no row has one
  bool skip_bad = false;                        // leave rows out that cannot be used, instead of refusing the file
};

// `name` is a file; several, separated by commas; a folder of tables; or a folder whose folders are labels and hold
// texts (*.txt), one in each file; in the order of their names. Empty lines are skipped; rows whose text is blank are
// skipped, counted and reported in the notices, because no answer can be right for them, and so are with `skip_bad`
// those that cannot be read; other columns are ignored. Throws Error bad_file with line and column of the first bad
// row, and how many more there are.
[[nodiscard]] Dataset read_user_data(const std::string& name, const UserColumns& columns,
                                     const OnBadRow& on_bad_row = {});

// The columns a file was read with, as stored in a trained model: {"text", "label"}, and "pair" and "separator" if they
// are not the default. Missing and non-string values are left unchanged.
[[nodiscard]] OrderedJson columns_json(const UserColumns& columns);
[[nodiscard]] UserColumns columns_from(const Json& stored);

// read_user_data() over bytes in memory; `columns.format` must be set. `where` opens error messages.
[[nodiscard]] Dataset parse_user_data(std::string_view bytes, const std::string& where, const UserColumns& columns,
                                      const OnBadRow& on_bad_row = {});

// Where labelled texts come from: a split of a GLUE or ELUE task below the folder `path`, or a file of the user's.
struct DataSource {
  std::string task = {}, path = {};
  std::string split = {};  // of the task; empty = dev
  UserColumns columns = {};
  int64_t limit = 0;  // 0 = all rows
};

// Whether a file has texts alone: plain lines, or neither the label column that is looked for by default nor one of a
// similar name.
[[nodiscard]] bool lacks_labels(const DataSource& source);

// Throws Error: usage if the source names nothing, bad_file if it holds no rows.
[[nodiscard]] Dataset load_data(const DataSource& source);
// Leaves the first `limit` rows, 0 = all. Throws Error bad_file, at `where`, if there is none.
void keep_first_rows(Dataset& data, int64_t limit, const std::string& where);

// The flags by which a command reads the same again, each with a blank before it, for hints: " --text-column body".
// Those that have their defaults are left out.
[[nodiscard]] std::string flags_for(const UserColumns& columns);
[[nodiscard]] std::string flags_for(const DataSource& source);

}  // namespace exeunt
