// SPDX-License-Identifier: Apache-2.0
// What the outputs of a model's exits mean: where its layout meets the evidence of outputs/.
#pragma once

#include <span>
#include <vector>

#include "exeunt/model/spec.h"
#include "exeunt/outputs/evidence.h"

namespace exeunt {

// An exit's logits as evidence is made of them. The layout must outlive it.
[[nodiscard]] inline Reading reading_of(const ExitLayout& exits, const float* logits, float temperature = 1,
                                        float lte = 0) noexcept {
  return {logits,
          exits.outputs,
          temperature,
          lte,
          exits.problem == Problem::multi_label,
          exits.cuts.empty() ? nullptr : exits.cuts.data()};
}

// The labels of an answer, by index: one; of several at once those that are given, in the order of the model; none of a
// regression.
[[nodiscard]] std::vector<int> labels_of(const ExitLayout& exits, std::span<const float> logits);
// The one with the largest logit; -1 of a regression.
[[nodiscard]] int best_label(const ExitLayout& exits, std::span<const float> logits);

}  // namespace exeunt
