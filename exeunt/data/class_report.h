// SPDX-License-Identifier: Apache-2.0
// What a single number hides: precision, recall and F1 of each class, and which classes are taken for which. Answers
// are one label of several, or sets of labels, with scikit-learn's figures for indicator matrices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exeunt/data/metrics.h"

namespace exeunt {

// Figures whose denominator is 0 are 0, as in scikit-learn.
struct ClassFigures {
  int64_t support = 0, predicted = 0, right = 0;  // rows of this class, with this answer, with both
  double precision = 0, recall = 0, f1 = 0;
};

struct ConfusedPair {
  size_t gold = 0, answer = 0;
  int64_t rows = 0;
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
[[nodiscard]] ClassReport set_report(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels);

// The share of rows whose whole set is right; NaN without rows.
[[nodiscard]] double exact_match(std::span<const uint8_t> predicted, std::span<const uint8_t> gold, size_t labels);

// The metrics of sets: exact_match, micro_f1, macro_f1; others are left out.
[[nodiscard]] std::vector<Score> score_sets(std::span<const Metric> metrics, std::span<const uint8_t> predicted,
                                            std::span<const uint8_t> gold, size_t labels);

}  // namespace exeunt
