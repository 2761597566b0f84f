// SPDX-License-Identifier: Apache-2.0
// What stored trainings have to set beside a paper's figures, for compare().
#pragma once

#include <string>
#include <vector>

#include "exeunt/eval/reproduction.h"
#include "exeunt/eval/stored_results.h"

namespace exeunt {

// The paper's recipe on this task, means over the seeds: its exits, its settings, and models cut short where there are
// any; for ElasticBERT the recipe with all exits, too. For MNLI the mismatched set comes last, without scores, since it
// is not stored. Throws Error (usage) where no run fits.
[[nodiscard]] std::vector<Reached> reached_by(const StoredResults& results, const Paper& paper,
                                              const std::string& task);

}  // namespace exeunt
