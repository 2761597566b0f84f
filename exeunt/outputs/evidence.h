// SPDX-License-Identifier: Apache-2.0
// The output of one exit for one text. This is the only place where logits become probabilities; host and device get
// the same bits from it.
#pragma once

#include <cmath>

#include "exeunt/outputs/host_device.h"
#include "exeunt/outputs/portable_math.h"
#include "exeunt/outputs/problem.h"

namespace exeunt {

// p = softmax(z / temperature), natural logarithms. A regression has a value and no probabilities. Of
// multi_label the answer is a set of labels, p[c] = sigmoid((z[c] - logit_thresholds[c]) / temperature) is the
// probability that label c belongs to it, and labels count as independent: p of a set is a product.
struct Evidence {
  int label = 0;           // argmax, the lowest index among equals; multi_label: the number of the set
  float value = 0;         // raw z[0]: the prediction for regression
  float entropy = 0;       // H(p) = -sum p ln p
  float nentropy = 0;      // H(p) / ln C, from 0 to 1; C = 2^L for sets of L labels
  float impurity = 0;      // Gini's: 1 - sum p^2, from 0 to 1 - 1 / C
  float confidence = 1;    // the largest p; multi_label: that of the set
  float margin = 1;        // the largest p minus the second largest; multi_label: that of the least certain label
  float first = 1;         // p[0]
  float least = 1;         // the smallest p
  float shift = INFINITY;  // Jensen-Shannon divergence to the exit evaluated before; infinite at the first
  float lte = 0;           // score of the learning-to-exit head: "should continue"
};

struct ExitLogits {
  const float* logits;  // [classes], raw
  int classes;
  float temperature = 1;
  float lte = 0;
  Problem problem = Problem::classification;
  const float* logit_thresholds = nullptr;  // multi_label: [classes], above which labels are given; null: 0
};

// The logit of a probability, above which a label with that threshold is given, and back. Thresholds are written with
// up to six digits, which survive both ways.
[[nodiscard]] inline float logit_of(double threshold) noexcept {
  return static_cast<float>(std::log(threshold / (1 - threshold)));
}
[[nodiscard]] inline double threshold_of(float logit) noexcept {
  return std::round(1e6 / (1 + std::exp(-static_cast<double>(logit)))) / 1e6;
}

// Of multi_label: the logit above which a label is given, and whether it is.
EXEUNT_HOST_DEVICE inline float logit_threshold(const ExitLogits& exit, int label) noexcept {
  return exit.logit_thresholds == nullptr ? 0.0F : exit.logit_thresholds[label];
}
EXEUNT_HOST_DEVICE inline bool has_label(const ExitLogits& exit, int label) noexcept {
  return exit.logits[label] > logit_threshold(exit, label);
}

// A number that stands for the set of labels that is given: that of equal sets is equal, and that of two others once in
// 16 million pairs. It is small enough to be exact in a float. Losses compare sets label by label.
EXEUNT_HOST_DEVICE inline int set_number(const ExitLogits& exit) noexcept {
  unsigned hash = 0x811c9dc5U;  // FNV-1a
  for (int c = 0; c < exit.classes; ++c) hash = (hash ^ (has_label(exit, c) ? 1U : 0U)) * 0x01000193U;
  return static_cast<int>((hash ^ hash >> 24) & 0xffffffU);
}

// What is answered: the label with the largest logit, the lowest index among equals; of multi_label, the set's number.
// Evidence::label without the rest.
EXEUNT_HOST_DEVICE inline int answer_number(const ExitLogits& exit) noexcept {
  if (exit.problem == Problem::multi_label) return set_number(exit);
  int best = 0;
  for (int c = 1; c < exit.classes; ++c)
    if (exit.logits[c] > exit.logits[best]) best = c;
  return best;
}

// Floats that `weigh` keeps of an exit for the next one to compute `shift`: a mark and the probabilities.
EXEUNT_HOST_DEVICE constexpr int memory_floats(int classes) {
  return 1 + classes;
}

// One class of 2 JSD(p, q): p ln(p/m) + q ln(q/m) with m = (p+q)/2, written so that equal p and q give exactly zero.
EXEUNT_HOST_DEVICE inline float divergence_term(float p, float q) noexcept {
  const float sum = p + q;
  if (!(sum > 0)) return 0;
  const float tilt = (p - q) / sum;
  const float left = p > 0 ? p * portable::log1p(tilt) : 0.0F;
  const float right = q > 0 ? q * portable::log1p(-tilt) : 0.0F;
  return left + right > 0 ? left + right : 0.0F;
}

// Jensen-Shannon divergence between the exit in `memory` and this one, which then replaces it.
// `scale` turns exp((z - peak) / T) into a probability.
EXEUNT_HOST_DEVICE inline float shift_from(float* memory, const ExitLogits& exit, float peak, float scale) noexcept {
  float twice = 0;
  for (int c = 0; c < exit.classes; ++c) {
    const float p = portable::exp((exit.logits[c] - peak) / exit.temperature) * scale;
    twice += divergence_term(memory[1 + c], p);
    memory[1 + c] = p;
  }
  const bool begun = memory[0] != 0;
  memory[0] = 1;
  return begun ? twice / 2 : INFINITY;
}

// multi_label: sums over independent yes-or-no questions, one for each label.
EXEUNT_HOST_DEVICE inline Evidence evidence_of_set(const ExitLogits& exit, float* memory) noexcept {
  Evidence e;
  e.value = exit.logits[0];
  e.lte = exit.lte;
  e.label = set_number(exit);
  float confidence = 0, purity = 1, least = 1, twice = 0;  // the logarithm of the confidence
  for (int c = 0; c < exit.classes; ++c) {
    const float d = (exit.logits[c] - logit_threshold(exit, c)) / exit.temperature;
    const float power = portable::exp(-std::fabs(d));  // of the less probable answer over the other
    const float p = 1 / (1 + power), q = power / (1 + power);
    e.entropy += portable::log1p(power) + (power > 0 ? q * std::fabs(d) : 0.0F);
    confidence -= portable::log1p(power);
    purity *= p * p + q * q;
    if (p - q < e.margin) e.margin = p - q;
    if (q < least) least = q;
    const float given = d > 0 ? p : q;
    if (c == 0) e.first = given;
    if (memory != nullptr) {
      twice += divergence_term(memory[1 + c], given) + divergence_term(1 - memory[1 + c], 1 - given);
      memory[1 + c] = given;
    }
  }
  e.nentropy = e.entropy / (static_cast<float>(exit.classes) * 0.69314718F);
  e.confidence = portable::exp(confidence);
  e.impurity = 1 - purity;
  e.least = least;
  if (memory != nullptr) {
    e.shift = memory[0] != 0 ? twice / 2 : INFINITY;
    memory[0] = 1;
  }
  return e;
}

// classification: one of two classes or more.
EXEUNT_HOST_DEVICE inline Evidence evidence_of_class(const ExitLogits& exit, float* memory) noexcept {
  Evidence e;
  e.value = exit.logits[0];
  e.lte = exit.lte;
  e.label = answer_number(exit);

  const float peak = exit.logits[e.label];
  // Over all classes but the label: sum e^d, sum e^2d, sum e^d d, max d, min e^d.
  float rest = 0, squares = 0, weighted = 0, second = -INFINITY, least = 1;
  for (int c = 0; c < exit.classes; ++c) {
    if (c == e.label) continue;
    const float d = (exit.logits[c] - peak) / exit.temperature;  // -inf if the gap exceeds fp32
    const float power = portable::exp(d);
    rest += power;
    squares += power * power;
    if (power > 0) weighted += power * d;
    if (d > second) second = d;
    if (power < least) least = power;
  }
  const float total = 1 + rest;
  e.entropy = portable::log1p(rest) - weighted / total;  // keeps its digits where p is almost 1
  e.nentropy = e.entropy / portable::log(static_cast<float>(exit.classes));
  e.impurity = (rest * (2 + rest) - squares) / (total * total);
  e.confidence = 1 / total;
  e.margin = -portable::expm1(second) / total;
  e.least = least / total;
  e.first = portable::exp((exit.logits[0] - peak) / exit.temperature) / total;
  if (memory != nullptr) e.shift = shift_from(memory, exit, peak, 1 / total);
  return e;
}

// Stable for any finite logits: every exponent is at most zero, and what underflows counts as p = 0.
// `memory` is null if no rule needs `shift`; all zeros before the first exit.
EXEUNT_HOST_DEVICE inline Evidence compute_evidence(const ExitLogits& exit, float* memory = nullptr) noexcept {
  switch (exit.problem) {
    case Problem::classification:
      return evidence_of_class(exit, memory);
    case Problem::multi_label:
      return evidence_of_set(exit, memory);
    case Problem::regression:
      break;
  }
  Evidence e;
  e.value = exit.logits[0];
  e.lte = exit.lte;
  return e;
}

// All probabilities of an exit with two classes or more, or of each label of multi_label, into out [classes].
// Thresholds do not change them: a label is given if its probability is above its threshold.
EXEUNT_HOST_DEVICE inline void probabilities(const ExitLogits& exit, float* out) noexcept {
  if (exit.problem == Problem::multi_label) {
    for (int c = 0; c < exit.classes; ++c) out[c] = 1 / (1 + portable::exp(-exit.logits[c] / exit.temperature));
    return;
  }
  float peak = exit.logits[0], total = 0;
  for (int c = 1; c < exit.classes; ++c)
    if (exit.logits[c] > peak) peak = exit.logits[c];
  for (int c = 0; c < exit.classes; ++c) total += out[c] = portable::exp((exit.logits[c] - peak) / exit.temperature);
  for (int c = 0; c < exit.classes; ++c) out[c] /= total;
}

}  // namespace exeunt
