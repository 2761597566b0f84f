// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/recorded_adam.h"

#include <utility>

#include "exeunt/base/error.h"

namespace exeunt::nn {

RecordedAdam::RecordedAdam(AdamW& adam, std::vector<Tensor> parameters)
    : adam_(adam), parameters_(std::move(parameters)) {
  const torch::NoGradGuard no_grad;
  for (AdamSlot& slot : adam_.slots()) {
    if (slot.m.defined()) continue;
    slot.m = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
    slot.v = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
  }
  const auto options = parameters_.front().options().dtype(torch::kFloat).requires_grad(false);
  numbers_ = torch::zeros({static_cast<int64_t>(adam_.slots().size()), 4}, options);
  factor_ = torch::ones({1}, options);
}

void RecordedAdam::Lists::upload() {
  norm.upload();
  adam.upload();
}

RecordedAdam::Lists RecordedAdam::make_lists() const {
  return {.norm = gpu::TensorWalk(parameters_), .adam = gpu::TensorWalk(parameters_)};
}

void RecordedAdam::work(Lists& lists, const std::vector<Tensor>& gradients, double most, Tensor norm) {
  const torch::NoGradGuard no_grad;
  std::vector<gpu::ListEntry> clipped, learning;
  for (const Tensor& gradient : gradients) clipped.push_back({.gradient = gradient.contiguous()});
  std::vector<AdamSlot>& slots = adam_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const Tensor& gradient = slots[i].parameter.grad();
    if (!gradient.defined()) continue;
    check(gradient.is_contiguous(), "gradients lie without gaps");
    learning.push_back({.parameter = slots[i].parameter.detach(),
                        .gradient = gradient,
                        .m = slots[i].m,
                        .v = slots[i].v,
                        .slot = static_cast<int>(i)});
    lists.slots.push_back(i);
  }
  lists.norm.set(clipped);
  lists.adam.set(learning);
  lists.norm.clip_factor(most, norm, factor_);
  lists.adam.adam(numbers_, factor_, adam_.options().beta1, adam_.options().beta2);
}

void RecordedAdam::send_numbers(const Lists& lists, double schedule) {
  const Tensor numbers = torch::zeros(numbers_.sizes(), torch::TensorOptions(torch::kFloat).pinned_memory(true));
  for (const size_t i : lists.slots) {
    const AdamW::Numbers found = adam_.count_update(adam_.slots()[i], schedule);
    float* to = numbers.data_ptr<float>() + 4 * i;
    to[0] = static_cast<float>(found.size);
    to[1] = static_cast<float>(found.epsilon);
    to[2] = static_cast<float>(found.before);
    to[3] = static_cast<float>(found.after);
  }
  numbers_.copy_(numbers, /*non_blocking=*/true);
}

}  // namespace exeunt::nn
