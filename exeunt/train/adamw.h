// SPDX-License-Identifier: Apache-2.0
// AdamW in two forms. `hf`, what the papers trained with:
//   m ← β1 m + (1−β1) g    v ← β2 v + (1−β2) g²
//   p ← p − lr √(1−β2^t) / (1−β1^t) · m / (√v + ε), then p ← p − lr·wd·p
// so ε is added to √v before bias correction. `torch` divides √v by √(1−β2^t) first and decays p before the update.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exeunt/recipes/recipe.h"
#include "exeunt/train/torch.h"

namespace exeunt::nn {

struct AdamSlot {
  std::string name = {};
  torch::Tensor parameter = {};
  double rate = 0;               // before the schedule
  double decay = 0;              // weight decay
  bool scheduled = true;         // false: the rate stays as it is
  torch::Tensor m = {}, v = {};  // undefined until the first gradient
  int64_t t = 0;                 // updates so far
};

struct AdamOptions {
  AdamKind kind = AdamKind::hf;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

class AdamW {
 public:
  AdamW(std::vector<AdamSlot> slots, AdamOptions options) : slots_(std::move(slots)), options_(options) {}

  // Updates every parameter that has a gradient; the others keep their value and have no state.
  void step(double schedule);
  [[nodiscard]] std::vector<AdamSlot>& slots() noexcept { return slots_; }
  [[nodiscard]] const std::vector<AdamSlot>& slots() const noexcept { return slots_; }

 private:
  std::vector<AdamSlot> slots_;
  AdamOptions options_;
};

}  // namespace exeunt::nn
