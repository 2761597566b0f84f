// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/adamw.h"

#include <cmath>

namespace exeunt::nn {

using torch::Tensor;

// All parameters go through each operation together: on a GPU that is one launch instead of hundreds.
void AdamW::step(double schedule) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> parameters, gradients, m, v;
  std::vector<at::Scalar> second, size, keep;
  bool any_decay = false;
  for (AdamSlot& slot : slots_) {
    const Tensor& gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    if (!slot.m.defined()) {
      slot.m = torch::zeros_like(slot.parameter, at::MemoryFormat::Preserve);
      slot.v = torch::zeros_like(slot.parameter, at::MemoryFormat::Preserve);
    }
    ++slot.t;
    const auto t = static_cast<double>(slot.t);
    const double rate = slot.scheduled ? slot.rate * schedule : slot.rate;
    const double first = 1 - std::pow(options_.beta1, t), root = std::sqrt(1 - std::pow(options_.beta2, t));
    const bool hf = options_.kind == AdamKind::hf;
    parameters.push_back(slot.parameter);
    gradients.push_back(gradient);
    m.push_back(slot.m);
    v.push_back(slot.v);
    second.emplace_back(root);
    size.emplace_back(hf ? -rate * root / first : -rate / first);
    keep.emplace_back(1 - rate * slot.decay);
    any_decay = any_decay || slot.decay > 0;
  }
  if (parameters.empty()) return;
  at::_foreach_mul_(m, options_.beta1);
  at::_foreach_add_(m, gradients, 1 - options_.beta1);
  at::_foreach_mul_(v, options_.beta2);
  at::_foreach_addcmul_(v, gradients, gradients, 1 - options_.beta2);
  std::vector<Tensor> root = at::_foreach_sqrt(v);
  const bool hf = options_.kind == AdamKind::hf;
  if (!hf) at::_foreach_div_(root, second);
  at::_foreach_add_(root, options_.epsilon);
  if (!hf && any_decay) at::_foreach_mul_(parameters, keep);
  at::_foreach_addcdiv_(parameters, m, root, size);
  if (hf && any_decay) at::_foreach_mul_(parameters, keep);
}

}  // namespace exeunt::nn
