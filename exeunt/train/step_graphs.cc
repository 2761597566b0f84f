// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/step_graphs.h"

#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

enum ReportPlace { kLoss, kNorm, kProjection, kParts = kProjection + 3, kHasParts = kParts + 2, kReportSize };

}  // namespace

StepReport PendingStep::report() {
  const std::vector<float> values = sent_.values();
  StepReport report{.loss = values[kLoss], .gradient_norm = values[kNorm], .rate = rate_};
  report.projection = projection_report(values[kProjection], values[kProjection + 1], values[kProjection + 2]);
  if (values[kHasParts] != 0) {
    report.last_loss = values[kParts];
    report.early_loss = values[kParts + 1];
  }
  return report;
}

struct StepGraphs::Entry {
  TrainBatch inputs;           // what the recording reads
  gpu::TensorWalk norm, adam;  // over the recording's gradients
  std::vector<size_t> slots;   // of AdamW, that have one
  std::unique_ptr<gpu::Recording> recording = {};
};

StepGraphs::StepGraphs(Stepper& stepper) : stepper_(stepper) {
  const torch::NoGradGuard no_grad;
  for (AdamSlot& slot : stepper_.adam().slots()) {
    if (slot.m.defined()) continue;
    slot.m = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
    slot.v = torch::zeros_like(slot.parameter, at::MemoryFormat::Contiguous);
  }
  parameters_ = stepper_.network()->parameters();
  for (const Tensor& weight : stepper_.objective().parameters()) parameters_.push_back(weight);
  const auto options = parameters_.front().options().dtype(torch::kFloat).requires_grad(false);
  numbers_ = torch::zeros({static_cast<int64_t>(stepper_.adam().slots().size()), 4}, options);
  report_ = torch::zeros({kReportSize}, options);
  factor_ = torch::ones({1}, options);
}

StepGraphs::~StepGraphs() = default;

// Everything a step does, as it is recorded. The lists of gradients are filled in here and sent afterwards: a
// recording's gradients lie at the same place whenever it is played.
void StepGraphs::work(Entry& entry, int64_t number) {
  const Tensor loss = stepper_.gather(entry.inputs, number, 1.0);
  stepper_.treat();
  const torch::NoGradGuard no_grad;
  std::vector<gpu::ListEntry> clipped, learning;
  for (const Tensor& gradient : stepper_.clipped_gradients()) clipped.push_back({.gradient = gradient.contiguous()});
  std::vector<AdamSlot>& slots = stepper_.adam().slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const Tensor& gradient = slots[i].parameter.grad();
    if (!gradient.defined()) continue;
    check(gradient.is_contiguous(), "gradients lie without gaps");
    learning.push_back({.parameter = slots[i].parameter.detach(),
                        .gradient = gradient,
                        .m = slots[i].m,
                        .v = slots[i].v,
                        .slot = static_cast<int>(i)});
    entry.slots.push_back(i);
  }
  entry.norm.set(clipped);
  entry.adam.set(learning);
  Tensor norm = report_.narrow(0, kNorm, 1);
  entry.norm.clip_factor(stepper_.clip_limit(), norm, factor_);
  const AdamOptions& options = stepper_.adam().options();
  entry.adam.adam(numbers_, factor_, options.beta1, options.beta2);
  report_[kLoss].copy_(loss);
  if (stepper_.loss_parts().defined()) {
    report_.narrow(0, kParts, 2).copy_(stepper_.loss_parts());
    report_[kHasParts].fill_(1);
  }
  if (stepper_.projected().defined()) report_.narrow(0, kProjection, 3).copy_(stepper_.projected());
}

std::unique_ptr<StepGraphs::Entry> StepGraphs::record(const TrainBatch& batch, int64_t number) {
  const torch::Device device = parameters_.front().device();
  const auto there = [&](const Tensor& tensor) { return tensor.to(device); };
  const TextBatch& texts = batch.texts;
  auto entry = std::make_unique<Entry>(
      Entry{.inputs = {{there(texts.ids), there(texts.types), there(texts.real)}, there(batch.gold)},
            .norm = gpu::TensorWalk(parameters_),
            .adam = gpu::TensorWalk(parameters_),
            .slots = {}});
  // A trial run that leaves no trace: neither gradients nor random numbers.
  const Tensor random = compat::random_state(device);
  gpu::warm_up(pool_, [&] {
    (void)stepper_.gather(entry->inputs, number, 1.0);
    stepper_.treat();
  });
  stepper_.forget();
  compat::set_random_state(device, random);
  entry->recording = std::make_unique<gpu::Recording>(pool_, [&] { work(*entry, number); });
  stepper_.forget();
  entry->norm.upload();
  entry->adam.upload();
  return entry;
}

PendingStep StepGraphs::run(const TrainBatch& batch, int64_t number) {
  const Shape shape{
      .rows = batch.texts.ids.size(0), .tokens = batch.texts.ids.size(1), .phase = stepper_.phase(number)};
  std::unique_ptr<Entry>& entry = entries_[shape];
  if (!entry) entry = record(batch, number);
  const auto fill = [](Tensor& to, const Tensor& from) { to.copy_(from, /*non_blocking=*/true); };
  fill(entry->inputs.texts.ids, batch.texts.ids);
  fill(entry->inputs.texts.types, batch.texts.types);
  fill(entry->inputs.texts.real, batch.texts.real);
  fill(entry->inputs.gold, batch.gold);
  const double schedule = stepper_.schedule();
  const Tensor numbers = torch::zeros(numbers_.sizes(), torch::TensorOptions(torch::kFloat).pinned_memory(true));
  for (const size_t i : entry->slots) {
    const AdamW::Numbers found = stepper_.adam().count_update(stepper_.adam().slots()[i], schedule);
    float* to = numbers.data_ptr<float>() + 4 * i;
    to[0] = static_cast<float>(found.size);
    to[1] = static_cast<float>(found.epsilon);
    to[2] = static_cast<float>(found.before);
    to[3] = static_cast<float>(found.after);
  }
  fill(numbers_, numbers);
  entry->recording->play();
  stepper_.count_step();
  return {gpu::Sent(report_), stepper_.lr() * schedule};
}

}  // namespace exeunt::nn
