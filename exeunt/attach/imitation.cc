// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/imitation.h"

#include <algorithm>
#include <cmath>

namespace exeunt {
namespace {

// p ln(p / q), 0 where p is.
double divergence(double p, double q) {
  return p > 0 ? p * std::log(p / std::max(q, 1e-38)) : 0;
}

}  // namespace

// softmax(logits / T), and ln Σ exp(logits / T); or the sigmoid of each (logit - threshold) / T.
double Imitation::tempered(std::span<const float> logits, std::span<float> out) const {
  if (meaning_.problem == Problem::multi_label) {
    const ExitLogits reading = meaning_.exit_logits(logits);
    for (size_t c = 0; c < logits.size(); ++c)
      out[c] =
          1 / (1 + std::exp(logit_threshold(reading, static_cast<int>(c)) / temperature_ - logits[c] / temperature_));
    return 0;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    out[c] = std::exp((logits[c] - largest) / temperature_);
    sum += out[c];
  }
  for (float& value : out) value = static_cast<float>(value / sum);
  return std::log(sum) + static_cast<double>(largest) / temperature_;
}

Imitation::Imitation(std::span<const float> teacher, const ExitLayout& exits, double temperature)
    : outputs_(exits.outputs),
      meaning_(exits),
      temperature_(static_cast<float>(temperature)),
      targets_(teacher.size()) {
  if (meaning_.problem == Problem::regression) {
    double squares = 0;
    for (const float value : teacher) mean_ += value / static_cast<double>(teacher.size());
    for (const float value : teacher) squares += (value - mean_) * (value - mean_);
    const double spread = std::sqrt(squares / static_cast<double>(std::max<size_t>(teacher.size(), 1)));
    if (spread > 0) spread_ = spread;
    for (size_t i = 0; i < teacher.size(); ++i) targets_[i] = static_cast<float>((teacher[i] - mean_) / spread_);
    return;
  }
  const auto width = static_cast<size_t>(outputs_);
  for (size_t i = 0; i < teacher.size(); i += width) {
    const std::span<const float> logits = teacher.subspan(i, width);
    tempered(logits, std::span(targets_).subspan(i, width));
    labels_.push_back(labels_of(meaning_, logits));
  }
}

std::span<const float> Imitation::target(size_t text) const noexcept {
  const auto width = static_cast<size_t>(outputs_);
  return std::span(targets_).subspan(text * width, width);
}

double Imitation::loss(std::span<const size_t> texts, std::span<const float> student, std::span<float> gradient) const {
  const auto width = static_cast<size_t>(outputs_);
  const auto count = static_cast<float>(texts.size());
  std::vector<float> own(width);
  double sum = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::span<const float> logits = student.subspan(i * width, width), wanted = target(texts[i]);
    if (meaning_.problem == Problem::regression) {
      const float difference = logits[0] - wanted[0];
      sum += static_cast<double>(difference) * difference;
      if (!gradient.empty()) gradient[i] = 2 * difference / count;
      continue;
    }
    const double total = tempered(logits, own);
    double lost = 0;
    for (size_t c = 0; c < width; ++c) {
      if (meaning_.problem == Problem::multi_label) {
        lost += divergence(wanted[c], own[c]) + divergence(1 - wanted[c], 1 - static_cast<double>(own[c]));
      } else if (wanted[c] > 0) {
        lost += wanted[c] *
                (std::log(static_cast<double>(wanted[c])) - (static_cast<double>(logits[c]) / temperature_ - total));
      }
      if (!gradient.empty()) gradient[i * width + c] = temperature_ * (own[c] - wanted[c]) / count;
    }
    sum += lost * temperature_ * temperature_;
  }
  return sum;
}

double Imitation::agreement(std::span<const size_t> texts, std::span<const float> student) const {
  const auto width = static_cast<size_t>(outputs_);
  double sum = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::span<const float> logits = student.subspan(i * width, width);
    sum += meaning_.problem == Problem::regression
               ? std::abs(logits[0] - target(texts[i])[0])
               : static_cast<double>(labels_of(meaning_, logits) == labels_[texts[i]]);
  }
  return sum;
}

void Imitation::finish(HeadArray& weights) const {
  if (meaning_.problem != Problem::regression) return;
  const bool inner = weights.shape().inner > 0;
  for (float& value : weights.part(inner ? HeadArray::inner : HeadArray::classifier)) {
    value = static_cast<float>(value * spread_);
  }
  for (float& value : weights.part(inner ? HeadArray::inner_bias : HeadArray::classifier_bias)) {
    value = static_cast<float>(value * spread_ + mean_);
  }
}

}  // namespace exeunt
