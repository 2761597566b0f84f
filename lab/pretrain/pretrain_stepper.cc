// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_stepper.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {

struct PretrainStepper::Recorded {
  PretrainTensors inputs;  // what the recording reads
  RecordedAdam::Lists lists;
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
  report_ = torch::zeros({1 + 2 * static_cast<int64_t>(network_->network()->layout().sites.size())}, like);
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

Tensor PretrainStepper::accumulate(const PretrainTensors& batch, const std::vector<bool>& active) {
  network_->train();
  const bool fused = options_.bf16 && network_->network()->fits_fused(batch.texts.ids.size(1));
  const compat::Autocast autocast(options_.bf16 && !fused);
  const Tensor losses = network_->losses(batch, active, {.equilibrium = options_.equilibrium, .fused = fused});
  losses.sum().backward();
  return losses.detach();
}

std::vector<Tensor> PretrainStepper::given_gradients() const {
  std::vector<Tensor> out;
  for (const Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) out.push_back(parameter.grad());
  }
  return out;
}

void PretrainStepper::zero_grad() {
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

bool PretrainStepper::packs() {
  return options_.bf16 && network_->network()->fits_fused(kPackedTokens);
}

PretrainStepper::Pending PretrainStepper::step(const PretrainTensors& batch) {
  const std::vector<bool> active = active_exits(network_->network()->spec().layers, options_.groups, done_);
  Pending pending = options_.record ? play(batch, active) : step_now(batch, active);
  pending.active_ = active;
  ++done_;
  return pending;
}

PretrainStepper::Pending PretrainStepper::step_now(const PretrainTensors& batch, const std::vector<bool>& active) {
  const Tensor losses = accumulate(moved(batch, parameters_.front().device()), active);
  const torch::NoGradGuard no_grad;
  const std::vector<Tensor> gradients = given_gradients();
  const Tensor norm = torch::stack(at::_foreach_norm(gradients)).norm();
  if (options_.clip > 0) {
    const double factor = options_.clip / (norm.item<double>() + 1e-6);
    if (factor < 1) at::_foreach_mul_(gradients, factor);
  }
  const double schedule = options_.schedule.at(done_);
  adam_.step(schedule);
  zero_grad();
  Pending pending;
  pending.values_ = torch::cat({norm.reshape({1}).to(torch::kFloat), losses.reshape({-1}).to(torch::kFloat)});
  pending.rate_ = options_.lr * schedule;
  return pending;
}

// Everything a step does, as it is recorded.
void PretrainStepper::work(Recorded& entry, const std::vector<bool>& active) {
  const Tensor losses = accumulate(entry.inputs, active);
  const torch::NoGradGuard no_grad;
  update_->work(entry.lists, given_gradients(), options_.clip, report_.narrow(0, 0, 1));
  report_.narrow(0, 1, losses.numel()).copy_(losses.reshape({-1}));
}

std::unique_ptr<PretrainStepper::Recorded> PretrainStepper::record(const PretrainTensors& batch,
                                                                   const std::vector<bool>& active) {
  const torch::Device device = parameters_.front().device();
  if (!update_) update_.emplace(adam_, parameters_);  // not before: a run that goes on brings AdamW's state with it
  auto entry = std::make_unique<Recorded>(Recorded{.inputs = moved(batch, device), .lists = update_->make_lists()});
  // A trial run that leaves no trace: neither gradients nor random numbers.
  const Tensor random = compat::random_state(device);
  gpu::warm_up(*pool_, [&] { (void)accumulate(entry->inputs, active); });
  zero_grad();
  compat::set_random_state(device, random);
  entry->recording = std::make_unique<gpu::Recording>(*pool_, [&] { work(*entry, active); });
  zero_grad();
  entry->lists.upload();
  return entry;
}

PretrainStepper::Pending PretrainStepper::play(const PretrainTensors& batch, const std::vector<bool>& active) {
  std::unique_ptr<Recorded>& entry = recorded_[{.active = active,
                                                .rows = batch.order.numel(),
                                                .tokens = batch.texts.ids.numel(),
                                                .predictions = batch.gold.numel()}];
  if (!entry) entry = record(batch, active);
  const torch::NoGradGuard no_grad;
  copy_batch(entry->inputs, batch);
  const double schedule = options_.schedule.at(done_);
  update_->send_numbers(entry->lists, schedule);
  entry->recording->play();
  Pending pending;
  pending.sent_.emplace(report_);
  pending.rate_ = options_.lr * schedule;
  return pending;
}

}  // namespace exeunt::nn
