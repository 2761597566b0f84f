// SPDX-License-Identifier: Apache-2.0
// The output of one exit for one text. This is the only place where logits become probabilities.
#pragma once

#include <cmath>
#include <limits>

#include "exeunt/exits/host_device.h"

namespace exeunt {

// p = softmax(z / temperature), natural logarithms. One output (regression) has a value and no probabilities.
struct Evidence {
  int label = 0;           // argmax; the lowest index among equals
  float value = 0;         // raw z[0]: the prediction for regression
  float entropy = 0;       // H(p) = -sum p ln p
  float nentropy = 0;      // H(p) / ln C, from 0 to 1
  float impurity = 0;      // Gini's: 1 - sum p^2, from 0 to 1 - 1 / C
  float confidence = 1;    // the largest p
  float margin = 1;        // the largest p minus the second largest
  float first = 1;         // p[0]
  float least = 1;         // the smallest p
  float shift = INFINITY;  // Jensen-Shannon divergence to the exit evaluated before; infinite at the first
  float lte = 0;           // score of the learning-to-exit head: "should continue"
};

struct Reading {
  const float* logits;  // [classes], raw
  int classes;
  float temperature = 1;
  float lte = 0;
};

// Floats that `weigh` keeps of an exit for the next one to compute `shift`: a mark and the probabilities.
EXEUNT_HOST_DEVICE constexpr int memory_floats(int classes) {
  return 1 + classes;
}

// One class of 2 JSD(p, q): p ln(p/m) + q ln(q/m) with m = (p+q)/2, written so that equal p and q give exactly zero.
EXEUNT_HOST_DEVICE inline float divergence_term(float p, float q) noexcept {
  const float sum = p + q;
  if (!(sum > 0)) return 0;
  const float tilt = (p - q) / sum;
  const float left = p > 0 ? p * std::log1p(tilt) : 0.0F;
  const float right = q > 0 ? q * std::log1p(-tilt) : 0.0F;
  return left + right > 0 ? left + right : 0.0F;
}

// Jensen-Shannon divergence between the exit in `memory` and this one, which then replaces it.
// `scale` turns exp((z - peak) / T) into a probability.
EXEUNT_HOST_DEVICE inline float shift_from(float* memory, const Reading& reading, float peak, float scale) noexcept {
  float twice = 0;
  for (int c = 0; c < reading.classes; ++c) {
    const float p = std::exp((reading.logits[c] - peak) / reading.temperature) * scale;
    twice += divergence_term(memory[1 + c], p);
    memory[1 + c] = p;
  }
  const bool begun = memory[0] != 0;
  memory[0] = 1;
  return begun ? twice / 2 : INFINITY;
}

// Stable for any finite logits: every exponent is at most zero, and what underflows counts as p = 0.
// `memory` is null if no rule needs `shift`; all zeros before the first exit.
EXEUNT_HOST_DEVICE inline Evidence weigh(const Reading& reading, float* memory = nullptr) noexcept {
  Evidence e;
  e.value = reading.logits[0];
  e.lte = reading.lte;
  if (reading.classes < 2) return e;
  for (int c = 1; c < reading.classes; ++c)
    if (reading.logits[c] > reading.logits[e.label]) e.label = c;

  const float peak = reading.logits[e.label];
  // Over all classes but the label: sum e^d, sum e^2d, sum e^d d, max d, min e^d.
  float rest = 0, squares = 0, weighted = 0, second = -INFINITY, least = 1;
  for (int c = 0; c < reading.classes; ++c) {
    if (c == e.label) continue;
    const float d = (reading.logits[c] - peak) / reading.temperature;  // -inf if the gap exceeds fp32
    const float power = std::exp(d);
    rest += power;
    squares += power * power;
    if (power > 0) weighted += power * d;
    if (d > second) second = d;
    if (power < least) least = power;
  }
  const float total = 1 + rest;
  e.entropy = std::log1p(rest) - weighted / total;  // keeps its digits where p is almost 1
  e.nentropy = e.entropy / std::log(static_cast<float>(reading.classes));
  e.impurity = (rest * (2 + rest) - squares) / (total * total);
  e.confidence = 1 / total;
  e.margin = -std::expm1(second) / total;
  e.least = least / total;
  e.first = std::exp((reading.logits[0] - peak) / reading.temperature) / total;
  if (memory != nullptr) e.shift = shift_from(memory, reading, peak, 1 / total);
  return e;
}

// All probabilities of an exit with two classes or more, into out [classes].
EXEUNT_HOST_DEVICE inline void probabilities(const Reading& reading, float* out) noexcept {
  float peak = reading.logits[0], total = 0;
  for (int c = 1; c < reading.classes; ++c)
    if (reading.logits[c] > peak) peak = reading.logits[c];
  for (int c = 0; c < reading.classes; ++c)
    total += out[c] = std::exp((reading.logits[c] - peak) / reading.temperature);
  for (int c = 0; c < reading.classes; ++c) out[c] /= total;
}

}  // namespace exeunt
