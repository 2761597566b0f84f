// SPDX-License-Identifier: Apache-2.0
// The flags by which every verb names its data: a GLUE or ELUE task and folder, or a file of the user's own.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "exeunt/base/json.h"
#include "exeunt/data/user_data.h"

namespace exeunt::apps {

inline constexpr const char* kDataGroup = "Data";  // the title of these flags in help

// For the flags of verbs that read a file of the user's and no task.
struct ColumnFlags {
  UserColumns columns;
};

void add_column_flags(CLI::App& verb, UserColumns& columns);
void add_data_flags(CLI::App& verb, DataSource& source);
// --cluster, of verbs that certify and of the one that keeps rows for them.
void add_cluster_flag(CLI::App& verb, UserColumns& columns);

// --labels: the names of your file's labels, or new ones for the outputs of a model.
CLI::Option* add_labels_flag(CLI::App& verb, UserColumns& columns);

// --thresholds of multi-label models: as parse_thresholds() takes them.
inline constexpr std::string_view kThresholdForms = "0.3 for all, 0.3,0.5,0.4 for each, or rude=0.3 for some";
CLI::Option* add_thresholds_flag(CLI::App& verb, std::string& thresholds);
// Those of a model by label; no logit_thresholds = one half.
[[nodiscard]] OrderedJson thresholds_json(const std::vector<std::string>& labels,
                                          const std::vector<float>& logit_thresholds);

// --separator: one character, or "tab". A file that is read with it is CSV, whatever its ending.
CLI::Option* add_separator_flag(CLI::App& verb, std::function<void(char)> take);
CLI::Option* add_separator_flag(CLI::App& verb, UserColumns& columns);

// "1%" or "0.01": above 0 and below 1, or with `ends` 0 and 1 as well. Throws Error (usage) that names the flag.
[[nodiscard]] double share_of(std::string_view text, std::string_view flag, bool ends = false);

// "0,5": least and greatest value. Throws Error (usage) that names the flag.
[[nodiscard]] std::pair<double, double> value_range(std::string_view text, std::string_view flag);

// "90s", "5min", "1.5h" or a number of seconds, as seconds. Throws Error (usage) that names the flag.
[[nodiscard]] double seconds_of(std::string_view text, std::string_view flag);

// "a,b,c" without blanks around the names.
[[nodiscard]] std::vector<std::string> comma_list(std::string_view text);

}  // namespace exeunt::apps
