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
  TrainBatch inputs;  // what the recording reads
  RecordedAdam::Lists lists;
  std::unique_ptr<gpu::Recording> recording = {};
};

namespace {

std::vector<Tensor> all_parameters(Stepper& stepper) {
  std::vector<Tensor> all = stepper.network()->parameters();
  for (const Tensor& weight : stepper.objective().parameters()) all.push_back(weight);
  return all;
}

}  // namespace

StepGraphs::StepGraphs(Stepper& stepper) : stepper_(stepper), update_(stepper.adam(), all_parameters(stepper)) {
  const torch::NoGradGuard no_grad;
  const Tensor& any = stepper_.adam().slots().front().parameter;
  report_ = torch::zeros({kReportSize}, any.options().dtype(torch::kFloat).requires_grad(false));
}

StepGraphs::~StepGraphs() = default;

// Everything a step does, as it is recorded.
void StepGraphs::work(Entry& entry, int64_t number) {
  const Tensor loss = stepper_.accumulate(entry.inputs, number, 1.0);
  stepper_.combine_gradients();
  const torch::NoGradGuard no_grad;
  update_.work(entry.lists, stepper_.clipped_gradients(), stepper_.clip_limit(), report_.narrow(0, kNorm, 1));
  report_[kLoss].copy_(loss);
  if (stepper_.loss_parts().defined()) {
    report_.narrow(0, kParts, 2).copy_(stepper_.loss_parts());
    report_[kHasParts].fill_(1);
  }
  if (stepper_.projected().defined()) report_.narrow(0, kProjection, 3).copy_(stepper_.projected());
}

std::unique_ptr<StepGraphs::Entry> StepGraphs::record(const TrainBatch& batch, int64_t number) {
  const torch::Device device = report_.device();
  const auto there = [&](const Tensor& tensor) { return tensor.to(device); };
  const TextBatch& texts = batch.texts;
  auto entry = std::make_unique<Entry>(
      Entry{.inputs = {{there(texts.ids), there(texts.types), there(texts.real)}, there(batch.gold)},
            .lists = update_.make_lists()});
  // A trial run that leaves no trace: neither gradients nor random numbers.
  const Tensor random = compat::random_state(device);
  gpu::warm_up(pool_, [&] {
    (void)stepper_.accumulate(entry->inputs, number, 1.0);
    stepper_.combine_gradients();
  });
  stepper_.zero_grad();
  compat::set_random_state(device, random);
  entry->recording = std::make_unique<gpu::Recording>(pool_, [&] { work(*entry, number); });
  stepper_.zero_grad();
  entry->lists.upload();
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
  update_.send_numbers(entry->lists, schedule);
  entry->recording->play();
  stepper_.count_step();
  return {gpu::Sent(report_), stepper_.lr() * schedule};
}

}  // namespace exeunt::nn
