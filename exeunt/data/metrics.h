// SPDX-License-Identifier: Apache-2.0
// The metrics of GLUE and ELUE in double precision, with scikit-learn's and SciPy's results in degenerate cases.
#pragma once

#include <cstdint>
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
  exact_match,  // of sets of labels: score_sets()
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

// What a single number hides: precision, recall and F1 of each class, and which classes are taken for which. Answers
// are one label of several, or sets of labels, with scikit-learn's figures for indicator matrices.
// Figures whose denominator is 0 are 0, as in scikit-learn.
struct ClassFigures {
  int64_t support = 0, predicted = 0, right = 0;  // rows of this class, with this answer, with both
  double precision = 0, recall = 0, f1 = 0;
};

struct ConfusedPair {
  size_t gold, answer;
  int64_t rows;
};

struct ClassReport {
  std::vector<ClassFigures> classes;  // in label order
  std::vector<int64_t> confusion;     // [classes, classes] rows with this gold and this answer; empty for sets
  double macro_f1 = 0;                // mean over the classes that occur, as gold or as answer; of sets, over all
  double micro_f1 = 0;                // of all decisions together; without sets, the accuracy
  double weighted_f1 = 0;             // mean, weighted by support

  [[nodiscard]] int64_t at(size_t gold, size_t answer) const {
    return confusion.empty() ? 0 : confusion[gold * classes.size() + answer];
  }
  // The most frequent mistakes, at most `count`; of equally frequent ones the first by gold.
  [[nodiscard]] std::vector<ConfusedPair> worst(size_t count) const;
};

// Label indices below `labels`, one per row in both.
[[nodiscard]] ClassReport class_report(std::span<const float> predicted, std::span<const float> gold, size_t labels);

// Sets: all spans below are [rows, labels], 1 where a row has a label. Each label is counted on its own; none is
// confused with another.
[[nodiscard]] ClassReport set_report(std::span<const float> predicted, std::span<const float> gold, size_t labels);

// The share of rows whose whole set is right; NaN without rows.
[[nodiscard]] double exact_match(std::span<const float> predicted, std::span<const float> gold, size_t labels);

// The metrics of sets: exact_match, micro_f1, macro_f1; others are left out.
[[nodiscard]] std::vector<Score> score_sets(std::span<const Metric> metrics, std::span<const float> predicted,
                                            std::span<const float> gold, size_t labels);

}  // namespace exeunt
