// SPDX-License-Identifier: Apache-2.0
// How far a score may lie from what more rows would give: intervals of 95 %, exact shares by Wilson's formula, all
// other metrics by drawing the rows anew. The same rows give the same interval on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/tasks/metrics.h"

namespace exeunt {

struct Bounds {
  double low = 0, high = 0;
};

// Of a share: `hits` of `rows`. Never empty, also where all or none hit.
[[nodiscard]] Bounds share_bounds(int64_t hits, int64_t rows);

// Answers of one model to the same rows, beside the truth in its own label order.
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

// first − second on the same rows: what both find easy or hard cancels out.
struct Difference {
  double value = 0, error = 0;  // error: standard error
  Bounds bounds;
};
[[nodiscard]] Difference difference_of(const Judge& judge, const Answers& first, const Answers& second);

}  // namespace exeunt
