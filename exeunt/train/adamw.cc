// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/adamw.h"

#include <cmath>

namespace exeunt::nn {

void AdamW::step(double schedule) {
  const torch::NoGradGuard no_grad;
  for (AdamSlot& slot : slots_) {
    if (slot.parameter.grad().defined()) update(slot, slot.scheduled ? slot.rate * schedule : slot.rate);
  }
}

void AdamW::update(AdamSlot& slot, double rate) const {
  const torch::Tensor& gradient = slot.parameter.grad();
  if (!slot.m.defined()) {
    slot.m = torch::zeros_like(slot.parameter, at::MemoryFormat::Preserve);
    slot.v = torch::zeros_like(slot.parameter, at::MemoryFormat::Preserve);
  }
  ++slot.t;
  const auto t = static_cast<double>(slot.t);
  const double first = 1 - std::pow(options_.beta1, t), second = std::sqrt(1 - std::pow(options_.beta2, t));
  slot.m.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
  slot.v.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
  if (options_.kind == AdamKind::torch) {
    if (slot.decay > 0) slot.parameter.mul_(1 - rate * slot.decay);
    slot.parameter.addcdiv_(slot.m, slot.v.sqrt().div_(second).add_(options_.epsilon), -rate / first);
    return;
  }
  slot.parameter.addcdiv_(slot.m, slot.v.sqrt().add_(options_.epsilon), -rate * second / first);
  if (slot.decay > 0) slot.parameter.add_(slot.parameter, -rate * slot.decay);
}

}  // namespace exeunt::nn
