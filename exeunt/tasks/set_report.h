// SPDX-License-Identifier: Apache-2.0
// Figures of answers that are sets of labels, as scikit-learn has them for indicator matrices.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/tasks/class_report.h"
#include "exeunt/tasks/metrics.h"

namespace exeunt {

// Both are [rows, labels]: 1 where a row has a label. `classes` of the report are the labels, each counted on its own;
// macro_f1 is the mean over all labels, micro_f1 of all decisions together; there is no confusion of one for another.
[[nodiscard]] ClassReport set_report(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels);

// The share of rows whose whole set is right; NaN without rows.
[[nodiscard]] double exact_match(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels);

// The metrics of sets: exact_match, micro_f1, macro_f1; others are left out.
[[nodiscard]] std::vector<Score> score_sets(std::span<const Metric> metrics, std::span<const uint8_t> predicted,
                                            std::span<const uint8_t> gold, size_t labels);

}  // namespace exeunt
