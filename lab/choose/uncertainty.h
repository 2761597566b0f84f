// SPDX-License-Identifier: Apache-2.0
// 95 % confidence intervals: Wilson's for proportions, an exact one for differences of two accuracies on the same rows,
// the bootstrap for all other metrics. The same rows give the same interval on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/data/metrics.h"

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

}  // namespace exeunt
