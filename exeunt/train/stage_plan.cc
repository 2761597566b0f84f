// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/stage_plan.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr double kForwards = 1.0 / 3;  // of a step: a frozen backbone has no backward pass, which costs twice as much

}  // namespace

StagePlan plan_stage(const StageSpec& stage, int64_t rows, const TrainPlan& plan) {
  check(stage.lr.is_plain() && stage.epochs.is_plain(), "a plan has no numbers with cases");
  StagePlan out{.lr = stage.lr.value, .batches = (rows + stage.batch - 1) / stage.batch};
  const int64_t steps_an_epoch = out.batches / plan.accumulation;
  if (steps_an_epoch == 0) {
    throw Error(Code::usage,
                fmt::format("an epoch has {} batches, fewer than the {} gradient accumulation steps", out.batches,
                            plan.accumulation),
                "lower --accumulation or --batch");
  }
  const double epochs = stage.epochs.value;
  out.steps = plan.max_steps > 0 && epochs > 0 ? plan.max_steps
                                               : static_cast<int64_t>(static_cast<double>(steps_an_epoch) * epochs);
  double warmup = plan.warmup_steps >= 0 ? plan.warmup_steps : stage.warmup * static_cast<double>(out.steps);
  if (plan.whole_warmup) warmup = std::floor(warmup);
  out.schedule = {.steps = out.steps, .warmup = warmup};
  return out;
}

Workload workload_of(int64_t rows, const TrainPlan& plan) {
  Workload work;
  for (const StageSpec& stage : plan.recipe.stages) {
    const int64_t steps = plan_stage(stage, rows, plan).steps;
    work.steps += steps;
    const int64_t texts = steps * stage.batch * plan.accumulation;
    const bool frozen = stage.train == Trainable::exits && plan.recipe.compat.frozen == Frozen::eval;
    work.texts += texts;
    work.cost += static_cast<double>(texts) * (frozen ? kForwards : 1);
  }
  return work;
}

double seconds_per_text(const Checkpoint& base, const TrainingData& data, TrainOptions options) {
  using std::chrono::steady_clock;
  options.out /= ".probe";
  options.overwrite = true;
  options.resume = options.trace = false;
  options.save_every = options.log_every = 0;
  options.progress.write = {};
  options.notice = {};
  options.started = {};
  options.recipe.stages.resize(1);
  options.recipe.stages.front().eval_every = 0;
  options.recipe.heads.init = HeadInit::normal;  // prototypes take a pass over the rows, and no part in a step
  options.estimate = false;
  TrainingData rows = data;
  rows.eval = {};
  rows.also.clear();
  const auto timed = [&](int64_t steps) {
    options.max_steps = steps;
    const auto start = steady_clock::now();
    (void)train(base, rows, options);
    return std::chrono::duration<double>(steady_clock::now() - start).count();
  };
  (void)timed(1);  // the first one also starts threads and reads what later ones find in memory
  const double one = timed(1), three = timed(3);
  std::error_code ignored;
  std::filesystem::remove_all(options.out, ignored);
  const double texts = 2.0 * options.recipe.stages.front().batch * options.accumulation;
  return (three > one ? three - one : three * 2 / 3) / texts;  // a busy machine may hide the difference
}

}  // namespace exeunt
