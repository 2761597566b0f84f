// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/step_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "exeunt/data/batches.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {

double StepTimer::seconds() const {
  using std::chrono::steady_clock;
  constexpr double kWithUpdates = 1.15;  // gradients are timed; the optimiser takes a little more
  double total = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const StageSpec& stage = options.recipe.stages[i];
    if (plans[i].steps == 0) continue;
    Stepper stepper(network, options.recipe, stage,
                    {.lr = plans[i].lr,
                     .schedule = plans[i].schedule,
                     .world = &world,
                     .bf16 = options.precision == "bf16",
                     .recorded = options.accumulation == 1});
    const std::vector<Batch> batches = shuffled_batches(
        data.train.offsets, {.batch = static_cast<size_t>(stage.batch), .window = static_cast<size_t>(options.window)});
    const auto tokens = [&](const Batch& rows) {
      size_t longest = 0;
      for (const size_t row : rows) longest = std::max(longest, data.train.length(row));
      return static_cast<double>(longest * rows.size());
    };
    double mean = 0;
    for (const Batch& rows : batches) mean += tokens(rows) / static_cast<double>(batches.size());
    const Batch& usual = *std::min_element(batches.begin(), batches.end(), [&](const Batch& a, const Batch& b) {
      return std::fabs(tokens(a) - mean) < std::fabs(tokens(b) - mean);
    });
    const TrainBatch batch = batch_tensors(data.train, usual, shape);
    double fastest = INFINITY;  // the first one also starts threads and fills caches, the second one may be recorded
    for (int n = 0; n < 3; ++n) {
      const auto start = steady_clock::now();
      (void)stepper.add(batch, 0, 1.0);
      for (const Tensor& parameter : network->parameters()) {  // waits for a GPU that is still at work
        if (parameter.grad().defined()) (void)parameter.grad().flatten()[0].item<float>();
      }
      stepper.zero_grad();
      fastest = std::min(fastest, std::chrono::duration<double>(steady_clock::now() - start).count());
    }
    const double share = tokens(usual) > 0 ? mean / tokens(usual) : 1;
    total += kWithUpdates * fastest * share * static_cast<double>(plans[i].steps * options.accumulation);
  }
  return total;
}

std::optional<double> StepTimer::deterministic_cost() const {
  if (!options.deterministic || !shape.device.is_cuda()) return std::nullopt;
  compat::repeat_bit_for_bit(shape.device, false);
  const double without = seconds();
  compat::repeat_bit_for_bit(shape.device, true);
  return without > 0 ? std::optional(seconds() / without) : std::nullopt;
}

}  // namespace exeunt::nn
