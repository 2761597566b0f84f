// SPDX-License-Identifier: Apache-2.0
// A recommendation in words, as a table, and as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/certify/recommend.h"

namespace exeunt {

// Who asks: somebody with trained runs, or a comparison of trainings, which need not be told to compare trainings.
enum class Asker { recommend, train };

struct RecommendationText {
  std::string verdict;                         // what to use, and what that gives
  std::vector<std::string> header;             // of the table
  std::vector<std::vector<std::string>> rows;  // the first is the one to use
  std::vector<std::string> notes;              // why, from which rows, and what would help
};
[[nodiscard]] RecommendationText explained(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                           const Goal& goal, Asker asker = Asker::recommend);

// Keys of docs/choosing.md.
[[nodiscard]] OrderedJson recommendation_json(const Recommendation& recommendation, std::span<const RunOnTrial> runs,
                                              const Goal& goal);

// The layers whose exits a policy evaluates, comma-separated, if it is a subset; empty = all.
[[nodiscard]] std::string chosen_exits(const PolicySpec& policy, const std::vector<int>& layers);

}  // namespace exeunt
