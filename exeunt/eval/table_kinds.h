// SPDX-License-Identifier: Apache-2.0
// What makes each kind of table, for the list in eval/result_tables.cc. Each gives no table where the folder has not
// the files it is made of, and throws Error (bad_file) where they are not as they should be.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "exeunt/eval/result_tables.h"

namespace exeunt {

// In the order of the page. Subsets: trained on some of the rows only.
inline constexpr std::array<std::string_view, 5> kWholeTasks{"RTE", "MRPC", "CoLA", "STS-B", "SST-2"};
inline constexpr std::array<std::string_view, 3> kSubsetTasks{"QNLI", "MNLI", "QQP"};
inline constexpr std::array<std::string_view, 11> kGridRecipes{"plain",        "deebert",     "deebert-sd", "pabee",
                                                               "elasticbert",  "romebert-sd", "romebert",   "elbert",
                                                               "elbert-equal", "berxit",      "exeunt"};

using ResultTables = std::vector<ResultTable>;

// exit_tables.cc
[[nodiscard]] ResultTables exit_tables(const StoredResults& results);
[[nodiscard]] ResultTables cut_short_tables(const StoredResults& results);
[[nodiscard]] ResultTables beside_tables(const StoredResults& results);
// policy_tables.cc
[[nodiscard]] ResultTables chosen_tables(const StoredResults& results);
[[nodiscard]] ResultTables policy_tables(const StoredResults& results);
// trial_tables.cc
[[nodiscard]] ResultTables trial_tables(const StoredResults& results);
[[nodiscard]] ResultTables objective_tables(const StoredResults& results);
// training_tables.cc
[[nodiscard]] ResultTables speed_tables(const StoredResults& results);
[[nodiscard]] ResultTables watched_tables(const StoredResults& results);
[[nodiscard]] ResultTables attention_tables(const StoredResults& results);
[[nodiscard]] int64_t watched_rows(const StoredResults& results);  // trained on by the runs that were watched; 0: none

// Parts of tables.
[[nodiscard]] Cell one_digit(double value);                        // "63.2"
[[nodiscard]] Cell with_sign(double value);                        // "+0.4"
[[nodiscard]] Cell with_difference(double value, double against);  // "63.2 (-1.4)"
[[nodiscard]] Cell mean_cell(const std::vector<double>& values);   // "–" where there are none
[[nodiscard]] Cell count_cell(size_t count);
[[nodiscard]] std::string in_marks(std::string_view name);                            // "`exeunt`"
[[nodiscard]] std::vector<std::string> layer_header(std::vector<std::string> first);  // and 1 to 12

}  // namespace exeunt
