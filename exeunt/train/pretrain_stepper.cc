// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/pretrain_stepper.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {

struct PretrainStepper::Recorded {
  PretrainTensors inputs;      // what the recording reads
  gpu::TensorWalk norm, adam;  // over the recording's gradients
  std::vector<size_t> slots;   // of AdamW, that have one
  std::unique_ptr<gpu::Recording> recording = {};
};

double PretrainReport::loss() const {
  double sum = 0;
  for (const auto* part : {&tokens, &order}) {
    for (const std::optional<double>& value : *part) sum += value.value_or(0);
  }
  return sum;
}

PretrainReport PretrainStepper::Pending::report() {
  std::vector<float> values;
  if (sent_) {
    values = sent_->values();
  } else {
    const Tensor host = values_.to(torch::kCPU, torch::kFloat).contiguous();
    values.assign(host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
  }
  // The norm, then both losses of the active exits.
  PretrainReport out{.gradient_norm = values[0], .rate = rate_};
  out.tokens.resize(active_.size());
  out.order.resize(active_.size());
  const auto count = static_cast<size_t>(std::count(active_.begin(), active_.end(), true));
  for (size_t i = 0, next = 1; i < active_.size(); ++i) {
    if (!active_[i]) continue;
    out.tokens[i] = values[next];
    out.order[i] = values[next + count];
    ++next;
  }
  return out;
}

PretrainStepper::PretrainStepper(PretrainNetwork network, const PretrainStepOptions& options)
    : network_(std::move(network)),
      options_(options),
      parameters_(network_->parameters()),
      adam_(make_slots(), {.kind = AdamKind::torch, .epsilon = options.epsilon}) {
  if (!options_.record) return;
  const torch::NoGradGuard no_grad;
  pool_ = std::make_unique<gpu::Pool>();
  const auto like = parameters_.front().options().dtype(torch::kFloat).requires_grad(false);
  numbers_ = torch::zeros({static_cast<int64_t>(adam_.slots().size()), 4}, like);
  report_ = torch::zeros({1 + 2 * static_cast<int64_t>(network_->network()->layout().sites.size())}, like);
  factor_ = torch::ones({1}, like);
}

PretrainStepper::~PretrainStepper() = default;

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

Tensor PretrainStepper::gather(const PretrainTensors& batch, const std::vector<bool>& active) {
  network_->train();
  const bool fused = options_.bf16 && network_->network()->fits_fused(batch.texts.ids.size(1));
  const compat::Autocast autocast(options_.bf16 && !fused);
  const Tensor losses = network_->losses(batch, active, {.equilibrium = options_.equilibrium, .fused = fused});
  losses.sum().backward();
  return losses.detach();
}

void PretrainStepper::forget() {
  for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

Tensor PretrainStepper::evaluate(const PretrainTensors& batch) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  const PretrainTensors there = moved(batch, parameters_.front().device());
  const std::vector<bool> all(network_->network()->layout().sites.size(), true);
  const bool fused = options_.bf16 && network_->network()->fits_fused(there.texts.ids.size(1));
  const compat::Autocast autocast(options_.bf16 && !fused);
  return network_->losses(there, all, {.equilibrium = false, .fused = fused}).to(torch::kCPU, torch::kDouble);
}

PretrainStepper::Pending PretrainStepper::step(const PretrainTensors& batch) {
  const std::vector<bool> active = active_exits(network_->network()->spec().layers, options_.groups, done_);
  Pending pending = options_.record ? play(batch, active) : step_now(batch, active);
  pending.active_ = active;
  ++done_;
  return pending;
}

PretrainStepper::Pending PretrainStepper::step_now(const PretrainTensors& batch, const std::vector<bool>& active) {
  const Tensor losses = gather(moved(batch, parameters_.front().device()), active);
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  const Tensor norm = torch::stack(at::_foreach_norm(gradients)).norm();
  if (options_.clip > 0) {
    const double factor = options_.clip / (norm.item<double>() + 1e-6);
    if (factor < 1) at::_foreach_mul_(gradients, factor);
  }
  const double schedule = options_.schedule.at(done_);
  adam_.step(schedule);
  forget();
  Pending pending;
  pending.values_ = torch::cat({norm.reshape({1}).to(torch::kFloat), losses.reshape({-1}).to(torch::kFloat)});
  pending.rate_ = options_.lr * schedule;
  return pending;
}

// Everything a step does, as it is recorded: see StepGraphs::work.
void PretrainStepper::work(Recorded& entry, const std::vector<bool>& active) {
  const Tensor losses = gather(entry.inputs, active);
  const torch::NoGradGuard no_grad;
  std::vector<gpu::ListEntry> clipped, learning;
  std::vector<AdamSlot>& slots = adam_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const Tensor& gradient = slots[i].parameter.grad();
    if (!gradient.defined()) continue;
    check(gradient.is_contiguous(), "gradients lie without gaps");
    clipped.push_back({.gradient = gradient});
    learning.push_back({.parameter = slots[i].parameter.detach(),
                        .gradient = gradient,
                        .m = slots[i].m,
                        .v = slots[i].v,
                        .slot = static_cast<int>(i)});
    entry.slots.push_back(i);
  }
  entry.norm.set(clipped);
  entry.adam.set(learning);
  Tensor norm = report_.narrow(0, 0, 1);
  entry.norm.clip_factor(options_.clip, norm, factor_);
  entry.adam.adam(numbers_, factor_, adam_.options().beta1, adam_.options().beta2);
  report_.narrow(0, 1, losses.numel()).copy_(losses.reshape({-1}));
}

std::unique_ptr<PretrainStepper::Recorded> PretrainStepper::record(const PretrainTensors& batch,
                                                                   const std::vector<bool>& active) {
  const torch::Device device = parameters_.front().device();
  {
    const torch::NoGradGuard no_grad;
    for (AdamSlot& slot : adam_.slots()) {
      if (slot.m.defined()) continue;
      slot.m = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
      slot.v = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
    }
  }
  auto entry = std::make_unique<Recorded>(Recorded{.inputs = moved(batch, device),
                                                   .norm = gpu::TensorWalk(parameters_),
                                                   .adam = gpu::TensorWalk(parameters_),
                                                   .slots = {}});
  // A trial run that leaves no trace: neither gradients nor random numbers.
  const Tensor random = compat::random_state(device);
  gpu::warm_up(*pool_, [&] { (void)gather(entry->inputs, active); });
  forget();
  compat::set_random_state(device, random);
  entry->recording = std::make_unique<gpu::Recording>(*pool_, [&] { work(*entry, active); });
  forget();
  entry->norm.upload();
  entry->adam.upload();
  return entry;
}

PretrainStepper::Pending PretrainStepper::play(const PretrainTensors& batch, const std::vector<bool>& active) {
  std::unique_ptr<Recorded>& entry = recorded_[active];
  if (!entry) entry = record(batch, active);
  const torch::NoGradGuard no_grad;
  const auto fill = [](Tensor& to, const Tensor& from) { to.copy_(from, /*non_blocking=*/true); };
  fill(entry->inputs.texts.ids, batch.texts.ids);
  fill(entry->inputs.texts.types, batch.texts.types);
  fill(entry->inputs.texts.real, batch.texts.real);
  fill(entry->inputs.places, batch.places);
  fill(entry->inputs.gold, batch.gold);
  fill(entry->inputs.weight, batch.weight);
  fill(entry->inputs.order, batch.order);
  fill(entry->inputs.order_weight, batch.order_weight);
  const double schedule = options_.schedule.at(done_);
  const Tensor numbers = torch::zeros(numbers_.sizes(), torch::TensorOptions(torch::kFloat).pinned_memory(true));
  for (const size_t i : entry->slots) {
    const AdamW::Numbers found = adam_.count_update(adam_.slots()[i], schedule);
    float* to = numbers.data_ptr<float>() + 4 * i;
    to[0] = static_cast<float>(found.size);
    to[1] = static_cast<float>(found.epsilon);
    to[2] = static_cast<float>(found.before);
    to[3] = static_cast<float>(found.after);
  }
  fill(numbers_, numbers);
  entry->recording->play();
  Pending pending;
  pending.sent_.emplace(report_);
  pending.rate_ = options_.lr * schedule;
  return pending;
}

}  // namespace exeunt::nn
