// SPDX-License-Identifier: Apache-2.0
// What the logits of a model mean: the one place that turns them into answers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/outputs/evidence.h"
#include "exeunt/outputs/problem.h"

namespace exeunt {

[[nodiscard]] std::string_view name_of(Problem problem) noexcept;
[[nodiscard]] std::optional<Problem> problem_named(std::string_view name) noexcept;

struct OutputSpec {
  Problem problem = Problem::classification;
  std::vector<std::string> labels = {};  // in output order; empty for a regression
  // multi_label: the logits above which labels are given, ln(t / (1 - t)) of their thresholds t; empty = 0 (t = 0.5)
  std::vector<float> logit_thresholds = {};
  std::optional<std::pair<double, double>> range = {};  // of regression values

  // As device code takes them; null = 0 for every label. The spec must outlive it.
  [[nodiscard]] const float* threshold_data() const noexcept {
    return logit_thresholds.empty() ? nullptr : logit_thresholds.data();
  }
  [[nodiscard]] double range_width() const noexcept { return range ? range->second - range->first : 0; }  // 0 = unknown
  // An exit's logits as evidence is made of them. The spec must outlive it.
  [[nodiscard]] ExitLogits exit_logits(std::span<const float> logits, float temperature = 1,
                                       float lte = 0) const noexcept {
    return {logits.data(), static_cast<int>(logits.size()), temperature, lte, problem, threshold_data()};
  }
  [[nodiscard]] std::string label(int index) const;  // LABEL_2 where the model has no names
};

// The labels of an answer, by index: one; of multi_label those that are given, in the order of the model; none of a
// regression.
[[nodiscard]] std::vector<int> labels_of(const OutputSpec& outputs, std::span<const float> logits);
// The one with the largest logit; -1 of a regression.
[[nodiscard]] int best_label(const OutputSpec& outputs, std::span<const float> logits);
// The answer as one number: a label's index, a set's number, or a regression value.
[[nodiscard]] float answer_of(const OutputSpec& outputs, std::span<const float> logits) noexcept;
// The same label, the same set of labels, or the same value?
[[nodiscard]] bool same_answer(const OutputSpec& outputs, std::span<const float> one, std::span<const float> other);

// How an answer is written.
struct AnswerStyle {
  std::string_view separator = ", ";  // between the labels of a set
  std::string_view none = {};         // for an empty set
  std::string_view value = "{}";      // format of a regression value
};
[[nodiscard]] std::string answer_text(const OutputSpec& outputs, std::span<const float> logits,
                                      const AnswerStyle& style = {});

}  // namespace exeunt
