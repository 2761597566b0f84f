// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/stage_plan.h"

#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {

StagePlan plan_stage(const StageSpec& stage, const TrainingData& data, const TrainOptions& options, Family family) {
  const TrainingCase which{.family = family,
                           .rows = static_cast<int64_t>(data.train.rows()),
                           .regression = data.outcome.problem == Problem::regression};
  const auto rows = static_cast<int64_t>(data.train.rows());
  StagePlan plan{.lr = number_for(stage.lr, which), .batches = (rows + stage.batch - 1) / stage.batch};
  const int64_t steps_an_epoch = plan.batches / options.accumulation;
  if (steps_an_epoch == 0) {
    throw Error(Code::usage,
                fmt::format("an epoch has {} batches, fewer than the {} gradient accumulation steps", plan.batches,
                            options.accumulation),
                "lower --accumulation or --batch");
  }
  plan.steps = options.max_steps > 0
                   ? options.max_steps
                   : static_cast<int64_t>(static_cast<double>(steps_an_epoch) * number_for(stage.epochs, which));
  double warmup = options.warmup_steps >= 0 ? options.warmup_steps : stage.warmup * static_cast<double>(plan.steps);
  if (options.whole_warmup) warmup = std::floor(warmup);
  plan.schedule = {.steps = plan.steps, .warmup = warmup};
  return plan;
}

Workload workload_of(const Checkpoint& base, const TrainingData& data, const TrainOptions& options) {
  Workload work;
  for (const StageSpec& stage : options.recipe.stages) {
    const StagePlan plan = plan_stage(stage, data, options, base.spec().family);
    work.steps += plan.steps;
    work.texts += plan.steps * stage.batch * options.accumulation;
  }
  return work;
}

}  // namespace exeunt
