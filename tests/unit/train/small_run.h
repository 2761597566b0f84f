// SPDX-License-Identifier: Apache-2.0
// A tiny model and a task it can learn in seconds: does the text hold token 7? As a regression: how often.
#pragma once

#include <random>
#include <string>

#include "exeunt/train/run.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {

inline Features small_features(const ModelSpec& spec, size_t rows, bool regression, uint32_t seed) {
  std::mt19937 random(seed);
  Features features;
  features.info = {.tokenizer = std::string(64, 'a'),
                   .data = std::string(64, 'b'),
                   .task = {},
                   .split = "train",
                   .labels = regression ? std::vector<std::string>{} : std::vector<std::string>{"no", "yes"},
                   .max_length = 12};
  for (size_t row = 0; row < rows; ++row) {
    const auto length = 4 + random() % 8;
    int count = 0;
    for (size_t t = 0; t < length; ++t) {
      const bool special = t > 0 && row % 2 == 1 && random() % 3 == 0;
      const int32_t id = t == 0    ? 1
                         : special ? 7
                                   : static_cast<int32_t>(8 + random() % static_cast<uint32_t>(spec.vocab - 8));
      count += id == 7;
      features.ids.push_back(id);
      features.types.push_back(0);
    }
    features.offsets.push_back(static_cast<int64_t>(features.ids.size()));
    features.gold.push_back(regression ? static_cast<float>(count) : static_cast<float>(count > 0));
    features.index.push_back(static_cast<int64_t>(row));
  }
  return features;
}

struct SmallRun {
  explicit SmallRun(const std::string& name, bool regression = false) : base(make_model(small_spec(), ExitLayout{})) {
    data.train = small_features(base.spec(), 90, regression, 1);
    data.eval = small_features(base.spec(), 40, regression, 2);
    if (regression) {
      data.outcome = {.problem = Problem::regression, .labels = {}, .range = std::pair{0.0, 12.0}};
    } else {
      data.outcome.labels = {"no", "yes"};
    }
    data.metrics = default_metrics(data.outcome.problem, 2);
    data.primary = data.metrics.front();
    PlanRequest request;
    request.recipe = name;
    request.as_written = true;
    recipe = resolve_plan(find_recipe(name), request, base.spec(), data.facts()).recipe;
  }

  [[nodiscard]] TrainOptions options(const std::filesystem::path& out) const {
    TrainOptions options;
    options.out = out;
    options.recipe = recipe;
    options.log_every = 1;
    options.threads = 1;
    options.device = "cpu";
    options.progress = {
        .terminal = false, .width = 80, .write = {}, .now = [] { return std::chrono::duration<double>(0); }};
    return options;
  }

  Checkpoint base;
  Recipe recipe;
  TrainingData data;
};

}  // namespace exeunt
