// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_stepper.h"

#include <utility>

#include "exeunt/train/gradient.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {

double PretrainReport::loss() const {
  double sum = 0;
  for (const auto* part : {&tokens, &order}) {
    for (const std::optional<double>& value : *part) sum += value.value_or(0);
  }
  return sum;
}

PretrainStepper::PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options)
    : network_(std::move(network)),
      options_(options),
      adam_(make_slots(), {.kind = AdamKind::torch, .epsilon = options.epsilon}) {}

std::vector<AdamSlot> PretrainStepper::make_slots() {
  std::vector<AdamSlot> slots;
  for (const auto& item : network_->named_parameters()) {
    const bool decayed = decays(item.key(), network_->network()->spec());
    slots.push_back({.name = item.key(),
                     .parameter = item.value(),
                     .rate = options_.lr,
                     .decay = decayed ? options_.weight_decay : 0.0});
  }
  return slots;
}

Tensor PretrainStepper::pass(const PretrainTensors& batch, const std::vector<bool>& active) {
  network_->train();
  const auto& [texts, places, gold, weight, order, order_weight] = batch;
  const std::vector<Tensor> inputs{texts.ids, texts.types, texts.real, places, gold, weight, order, order_weight};
  const std::vector<Tensor> found = graphs_.run(done_ % options_.groups, inputs, [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> out;
    {
      const compat::Autocast autocast(options_.bf16);
      out.push_back(
          network_->losses({{in[0], in[1], in[2]}, in[3], in[4], in[5], in[6], in[7]}, active, options_.equilibrium));
    }
    out.front().sum().backward();
    out.front() = out.front().detach();
    for (AdamSlot& slot : adam_.slots()) out.push_back(std::exchange(slot.parameter.mutable_grad(), {}));
    return out;
  });
  for (size_t i = 1; i < found.size(); ++i) adam_.slots()[i - 1].parameter.mutable_grad() = found[i];
  return found.front();
}

PretrainReport PretrainStepper::step(const PretrainTensors& batch) {
  const std::vector<bool> active = active_exits(network_->network()->spec().layers, options_.groups, done_);
  const Tensor losses = pass(batch, active);
  std::vector<Tensor> gradients;
  for (const AdamSlot& slot : adam_.slots()) {
    if (slot.parameter.grad().defined()) gradients.push_back(slot.parameter.grad());
  }
  const double schedule = options_.schedule.at(done_++);
  PretrainReport out{.gradient_norm = clip_gradients(gradients, options_.clip), .rate = options_.lr * schedule};
  adam_.step(schedule);
  for (AdamSlot& slot : adam_.slots()) slot.parameter.mutable_grad() = Tensor();
  const Tensor values = losses.to(torch::kCPU, torch::kDouble);
  out.tokens.resize(active.size());
  out.order.resize(active.size());
  for (size_t i = 0, next = 0; i < active.size(); ++i) {
    if (!active[i]) continue;
    out.tokens[i] = values[0][static_cast<int64_t>(next)].item<double>();
    out.order[i] = values[1][static_cast<int64_t>(next)].item<double>();
    ++next;
  }
  return out;
}

Tensor PretrainStepper::evaluate(const PretrainTensors& batch) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  const std::vector<bool> all(network_->network()->layout().sites.size(), true);
  const compat::Autocast autocast(options_.bf16);
  return network_->losses(batch, all, false).to(torch::kCPU, torch::kDouble);
}

}  // namespace exeunt::nn
