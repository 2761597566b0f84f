// SPDX-License-Identifier: Apache-2.0
// Are texts like those that a promise was tested on? A promise holds for texts that are drawn as those were. Labels are
// not needed to see that they are not: the answers at full depth then come in other shares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

// How many rows full depth gives each answer, in the order of the labels; empty for a regression and
// for several labels.
[[nodiscard]] std::vector<int64_t> full_depth_answers(const ExitTrace& trace);

struct Shift {
  double p_value = 1;          // of the chi-square test that both are drawn alike
  size_t most = 0;             // the answer whose share differs most …
  double there = 0, here = 0;  // … and its shares
};

// Two counts of the same answers. Answers too rare for the test are put together. Nothing where there is nothing to
// compare: one side is empty or has other labels, or one answer alone is frequent enough.
[[nodiscard]] std::optional<Shift> shift_between(std::span<const int64_t> there, std::span<const int64_t> here);

// Rows in order of time, of which the last ones are lost more often than those before them: of the last half, quarter,
// eighth … those that chance explains least, at this level for all together. Nothing where chance may explain it.
struct LateLoss {
  size_t rows = 0;               // the last so many
  double before = 0, after = 0;  // share of rows lost
};
[[nodiscard]] std::optional<LateLoss> late_loss(const std::vector<bool>& lost, double level = 0.01);

}  // namespace exeunt
