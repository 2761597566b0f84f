// SPDX-License-Identifier: Apache-2.0
// What is odd about labelled texts: rare and near-equal labels, missing values, repeated rows, rows that occur in two
// files. `exeunt data check` shows all of it; verbs that learn from data or measure on it show what can mislead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/data/user_data.h"

namespace exeunt {

// With fewer rows a label can hardly be learned: the hold-out split leaves about two thirds of them.
inline constexpr int64_t kRareRows = 5;

struct NearLabels {
  std::string rare, common;  // "complant" beside "complaint"
  int64_t rare_rows, common_rows;
};

struct DataFacts {
  int64_t rows = 0;
  int64_t pairs = 0;                       // rows with a second text
  std::vector<int64_t> label_counts = {};  // in the order of the labels; empty for a regression and without labels
  std::vector<std::string> rare = {};      // labels with fewer than kRareRows rows, and at least one
  std::vector<std::string> absent = {};    // labels without a row
  std::vector<std::string> missing = {};   // labels that look like missing values: "NA"
  int64_t missing_rows = 0;                // with such a label
  std::vector<NearLabels> near = {};       // pairs of labels that may be one, misspelt
  int64_t repeated = 0;                    // rows whose text an earlier row has
  int64_t contradictions = 0;              // rows whose text an earlier row has with another label
  int64_t first_contradiction = -1;        // its row, from 0
  int64_t median_words = 0, most_words = 0;
};

[[nodiscard]] DataFacts inspect(const Dataset& data);

// Rows of `other` whose text occurs in `data`.
[[nodiscard]] int64_t shared_rows(const Dataset& data, const Dataset& other);

// The facts that can mislead whoever trains on the data or measures with it, one sentence each.
enum class DataUse { learn, measure };
[[nodiscard]] std::vector<std::string> warnings_of(const DataFacts& facts, const Dataset& data, DataUse use);

// Problems kept per file; the rest are only counted.
inline constexpr size_t kMaxProblems = 20;

struct UserReport {
  Dataset data;
  DataFacts facts;
  std::vector<std::string> problems;  // rows that cannot be used, "file:line: …", at most kMaxProblems
  int64_t problem_count = 0;
};

// A file of the user's, as read_user_data() reads it; its bad rows are counted. Throws Error for a bad file.
[[nodiscard]] UserReport check_user_data(const std::string& name, const UserColumns& columns);

}  // namespace exeunt
