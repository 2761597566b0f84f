// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/stage_plan.h"

#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr double kForwards = 1.0 / 3;  // of a step: a frozen backbone has no backward pass, which costs twice as much

}  // namespace

StagePlan plan_stage(const StageSpec& stage, const TrainingData& data, const TrainOptions& options, Family family) {
  const TrainingCase which{
      .family = family, .rows = static_cast<int64_t>(data.train.rows()), .problem = data.outcome.problem};
  const auto rows = static_cast<int64_t>(data.train.rows());
  StagePlan plan{.lr = number_for(stage.lr, which), .batches = (rows + stage.batch - 1) / stage.batch};
  const int64_t steps_an_epoch = plan.batches / options.accumulation;
  if (steps_an_epoch == 0) {
    throw Error(Code::usage,
                fmt::format("an epoch has {} batches, fewer than the {} gradient accumulation steps", plan.batches,
                            options.accumulation),
                "lower --accumulation or --batch");
  }
  const double epochs = number_for(stage.epochs, which);
  plan.steps = options.max_steps > 0 && epochs > 0 ? options.max_steps
                                                   : static_cast<int64_t>(static_cast<double>(steps_an_epoch) * epochs);
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
    const int64_t texts = plan.steps * stage.batch * options.accumulation;
    const bool frozen = stage.train == Trainable::exits && options.recipe.compat.frozen == Frozen::eval;
    work.texts += texts;
    work.cost += static_cast<double>(texts) * (frozen ? kForwards : 1);
  }
  return work;
}

}  // namespace exeunt
