// SPDX-License-Identifier: Apache-2.0
// 95 % confidence intervals: Wilson's for proportions, an exact one for differences of two accuracies on the same rows,
// the bootstrap for all other metrics. The same rows give the same
// interval on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/data/metrics.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

struct Bounds {
  double low = 0, high = 0;
};

// Of a proportion: `hits` of `rows`. Never empty, even if all or none hit.
[[nodiscard]] Bounds share_bounds(int64_t hits, int64_t rows);

// Predictions of one model and the gold labels, in the model's label order.
struct Answers {
  std::span<const float> predicted, gold;  // [rows]
};
struct Judge {
  std::span<const Metric> metrics;
  Metric primary = Metric::accuracy;
};

[[nodiscard]] double value_of(const Judge& judge, const Answers& answers);

// The primary metric of one set of answers.
[[nodiscard]] Bounds score_bounds(const Judge& judge, const Answers& answers);

// first − second, paired by row. The bounds of other metrics than accuracy are equal if all answers are: the bootstrap
// cannot see what no row shows.
struct Difference {
  double value = 0, error = 0;  // error: standard error
  Bounds bounds;
};
[[nodiscard]] Difference difference_of(const Judge& judge, const Answers& first, const Answers& second);

// Are texts like those that a promise was tested on? A promise holds for texts that are drawn as those were. Labels are
// not needed to see that they are not: the answers at full depth then come in other shares.
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

}  // namespace exeunt
