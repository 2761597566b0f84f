// SPDX-License-Identifier: Apache-2.0
// What a single number hides: precision, recall and F1 of each class, and which classes are taken for which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  double macro_f1 = 0;                // mean over the classes that occur, as gold or as answer
  double micro_f1 = 0;                // over all rows: the accuracy
  double weighted_f1 = 0;             // mean, weighted by support

  [[nodiscard]] int64_t at(size_t gold, size_t answer) const {
    return confusion.empty() ? 0 : confusion[gold * classes.size() + answer];
  }
  // The most frequent mistakes, at most `count`; of equally frequent ones the first by gold.
  [[nodiscard]] std::vector<ConfusedPair> worst(size_t count) const;
};

// Label indices below `labels`, one per row in both.
[[nodiscard]] ClassReport class_report(std::span<const float> predicted, std::span<const float> gold, size_t labels);

}  // namespace exeunt
