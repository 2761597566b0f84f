// SPDX-License-Identifier: Apache-2.0
// A few texts that show how a policy behaves: the first to leave, the last, and those it answers differently.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/exits/replay.h"
#include "exeunt/exits/trace.h"

namespace exeunt {

struct ExampleRow {
  std::string text;  // "row 17" where texts are not at hand
  int layer = 0;
  std::string answer, full_depth, gold;  // labels, or numbers of a regression; gold empty if unknown
  std::optional<bool> right;             // nothing without gold, and for a regression
};

struct ExampleSets {
  std::vector<ExampleRow> early, late, wrong;
};

// At most `most` of each kind; the surest come first among the early ones, and among the wrong ones those that full
// depth would have had right.
[[nodiscard]] ExampleSets pick_examples(const ExitTrace& trace, const Departures& departures,
                                        const std::function<std::string(int64_t)>& text, size_t most = 8);

}  // namespace exeunt
