// SPDX-License-Identifier: Apache-2.0
#include "exeunt/outputs/output_spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace exeunt {

std::string_view name_of(Problem problem) noexcept {
  switch (problem) {
    case Problem::classification:
      return "classification";
    case Problem::multi_label:
      return "multi_label";
    case Problem::regression:
      return "regression";
  }
  return {};
}

std::optional<Problem> problem_named(std::string_view name) noexcept {
  for (const Problem problem : {Problem::classification, Problem::multi_label, Problem::regression})
    if (name_of(problem) == name) return problem;
  return std::nullopt;
}

std::string OutputSpec::label(int index) const {
  const auto i = static_cast<size_t>(index);
  return i < labels.size() ? labels[i] : fmt::format("LABEL_{}", index);
}

int best_label(const OutputSpec& outputs, std::span<const float> logits) {
  if (outputs.problem == Problem::regression) return -1;
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int> labels_of(const OutputSpec& outputs, std::span<const float> logits) {
  std::vector<int> out;
  switch (outputs.problem) {
    case Problem::classification:
      out.push_back(best_label(outputs, logits));
      break;
    case Problem::multi_label:
      for (int c = 0; c < static_cast<int>(logits.size()); ++c)
        if (has_label(outputs.exit_logits(logits), c)) out.push_back(c);
      break;
    case Problem::regression:
      break;
  }
  return out;
}

float answer_of(const OutputSpec& outputs, std::span<const float> logits) noexcept {
  switch (outputs.problem) {
    case Problem::classification:
    case Problem::multi_label:
      return static_cast<float>(answer_number(outputs.exit_logits(logits)));
    case Problem::regression:
      break;
  }
  return logits[0];
}

bool same_answer(const OutputSpec& outputs, std::span<const float> one, std::span<const float> other) {
  switch (outputs.problem) {
    case Problem::classification:
    case Problem::regression:
      return answer_of(outputs, one) == answer_of(outputs, other);
    case Problem::multi_label:
      break;
  }
  const ExitLogits first = outputs.exit_logits(one), second = outputs.exit_logits(other);
  for (int c = 0; c < first.classes; ++c)
    if (has_label(first, c) != has_label(second, c)) return false;
  return true;
}

std::string answer_text(const OutputSpec& outputs, std::span<const float> logits, const AnswerStyle& style) {
  if (outputs.problem == Problem::regression) return fmt::format(fmt::runtime(style.value), logits[0]);
  std::string out;
  for (const int label : labels_of(outputs, logits)) {
    if (!out.empty()) out += style.separator;
    out += outputs.label(label);
  }
  return out.empty() ? std::string(style.none) : out;
}

}  // namespace exeunt
