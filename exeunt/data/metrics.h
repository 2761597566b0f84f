// SPDX-License-Identifier: Apache-2.0
// The metrics of GLUE and ELUE in double precision, with scikit-learn's and SciPy's results in degenerate cases.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exeunt/outputs/problem.h"

namespace exeunt {

enum class Metric {
  accuracy,
  f1,
  matthews_correlation,
  pearson,
  spearmanr,
  combined_score,
  exact_match,  // of sets of labels: class_report.h
  micro_f1,
  macro_f1
};

[[nodiscard]] std::string_view name_of(Metric metric) noexcept;  // the key in every JSON output
[[nodiscard]] std::optional<Metric> metric_named(std::string_view name) noexcept;

// Both spans have the same length. Empty input gives NaN for all but f1 and matthews_correlation (0).
[[nodiscard]] double accuracy(std::span<const int> predicted, std::span<const int> gold);

// F1 = 2TP / (2TP + FP + FN) of one class; 0 if the denominator is 0.
[[nodiscard]] double f1(std::span<const int> predicted, std::span<const int> gold, int positive = 1);

// Matthews' correlation, for any number of classes (Gorodkin 2004); 0 if the denominator is 0.
[[nodiscard]] double matthews_correlation(std::span<const int> predicted, std::span<const int> gold);

// NaN for fewer than two pairs, for constant input, and for non-finite values.
[[nodiscard]] double pearson(std::span<const double> predicted, std::span<const double> gold);

// Pearson of the ranks, ties sharing their average rank. Infinities have a rank; NaN anywhere gives NaN.
[[nodiscard]] double spearmanr(std::span<const double> predicted, std::span<const double> gold);

struct Score {
  Metric metric;
  double value;
};

// The requested metrics, in order. Predictions and gold as in traces: label indices, or values for pearson and
// spearmanr. combined_score is the mean of the others in the list. Throws Error usage if gold is missing (NaN). f1 is
// of the class `positive`.
[[nodiscard]] std::vector<Score> score(std::span<const Metric> metrics, std::span<const float> predicted,
                                       std::span<const float> gold, int positive = 1);

// The metrics for data without a known task.
[[nodiscard]] std::vector<Metric> default_metrics(Problem problem, size_t labels);

}  // namespace exeunt
