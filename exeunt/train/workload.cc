// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/workload.h"

#include "exeunt/train/stage_plan.h"

namespace exeunt {

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
