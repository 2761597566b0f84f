// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/estimate.h"

#include <chrono>
#include <filesystem>
#include <system_error>

namespace exeunt {

double seconds_per_text(const Checkpoint& base, const TrainingData& data, TrainOptions options) {
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
    const auto start = std::chrono::steady_clock::now();
    (void)train(base, rows, options);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  (void)timed(1);  // the first one also starts threads and reads what later ones find in memory
  const double one = timed(1), three = timed(3);
  std::error_code ignored;
  std::filesystem::remove_all(options.out, ignored);
  const double texts = 2.0 * options.recipe.stages.front().batch * options.accumulation;
  return (three > one ? three - one : three * 2 / 3) / texts;  // a busy machine may hide the difference
}

}  // namespace exeunt
