// SPDX-License-Identifier: Apache-2.0
// What a trained network must beat to be worth its cost: the most frequent class, and a linear model over hashed words
// and character n-grams, which learns in seconds from the same rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/data/metrics.h"

namespace exeunt {

// Softmax regression (least squares for a regression, a logistic one for each label of multi_label) over the text's
// words, pairs of words and the 3- to 5-byte pieces of its words, hashed into buckets and weighted by term frequency
// and inverse document frequency. The same rows give the same model on every machine.
class LinearModel {
 public:
  // `train` is labelled and not empty.
  explicit LinearModel(const Dataset& train);

  // A label index or a value for each example; of multi_label [examples, labels], 1 for each that is given.
  [[nodiscard]] std::vector<float> answers(const Dataset& data) const;

 private:
  struct Term {
    uint32_t bucket;
    float weight;
  };
  using Terms = std::vector<Term>;

  [[nodiscard]] Terms terms_of(const Example& example) const;
  // `gold` as answers() has it.
  void learn(const std::vector<Terms>& texts, const std::vector<float>& gold);
  // The derivative of the loss of a text with these outputs takes their place.
  void take_gradient(std::vector<float>& out, const float* gold) const;
  void logits_of(const Terms& terms, std::vector<float>& out) const;

  Problem problem_;
  size_t width_ = 1;
  uint32_t buckets_ = 0;
  float centre_ = 0, scale_ = 1;  // of regression values
  std::vector<float> idf_;        // [buckets] ln(rows / rows with the term) + 1
  std::vector<float> weights_;    // [buckets, width], then [width] biases
};

// The label or the set of labels that most rows have, the first among equals, or the mean of a regression's values, as
// append_gold() has them.
[[nodiscard]] std::vector<float> majority_answer(const Dataset& train);

struct BaselineScore {
  std::string name;  // "majority class", "majority set", "mean of the labels", "linear model"
  std::vector<Score> metrics;
};

// Both, learned from `train` and scored on `data`, whose gold has the same label order.
[[nodiscard]] std::vector<BaselineScore> baseline(const Dataset& train, const Dataset& data,
                                                  const std::vector<Metric>& metrics);

// One for each: "linear model: accuracy 81.00, f1 80.12".
[[nodiscard]] std::vector<std::string> baseline_lines(const std::vector<BaselineScore>& baseline);

// That a network which reached this score is beaten by one of them, and what to do; empty where it is not.
[[nodiscard]] std::string lost_to_baseline(const std::vector<BaselineScore>& baseline, Metric metric, double reached);

}  // namespace exeunt
