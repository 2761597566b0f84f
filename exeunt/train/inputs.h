// SPDX-License-Identifier: Apache-2.0
// What training starts from: rows as token ids, and a backbone. No torch here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/baseline.h"
#include "exeunt/data/features.h"
#include "exeunt/data/metrics.h"
#include "exeunt/data/user_data.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/recipes/train_plan.h"

namespace exeunt {

// More rows to evaluate at the end: MNLI's second dev set ("mm"), texts to choose a threshold on.
struct ExtraSet {
  std::string name;
  Features features;
};

struct TrainingData {
  Features train, eval;  // gold of both in the order of outcome.labels
  std::vector<ExtraSet> also = {};
  OutputSpec outcome;
  std::string task;  // name in the table of tasks; empty for the user's own data
  std::vector<Metric> metrics;
  Metric primary = Metric::accuracy;
  std::optional<UserColumns> columns = {};   // of the user's own file, as recipe.json keeps them
  std::vector<BaselineScore> baseline = {};  // on the evaluation rows

  bool of_pairs = false;  // each row has two texts

  // What the values of a plan depend on.
  [[nodiscard]] TrainingFacts facts() const;
};

// Where the rows come from: a task's folder, a file of the user's own, or feature files.
struct TrainingSource {
  std::string task, data, eval_data, train_features, eval_features;
  UserColumns columns = {};            // of the user's own file
  double hold_out = 0;                 // share of the user's rows that are not trained on, where there is no eval_data
  std::vector<std::string> also = {};  // NAME=FILE of features
  int64_t limit = 0;                   // training rows; 0 = all
  int max_length = 0;                  // tokens per text; 0: by the user's texts, and for tasks kLeastLength
  int threads = 0;
};

struct LoadedData {
  TrainingData data;
  std::string held_out = {};  // the file of rows to certify with; empty = none
  size_t held_out_rows = 0;   // in it
  double hold_out = 0;        // its share of the user's rows
  bool user_file = false;     // the user's texts, not a task's and not features
};

using Notice = std::function<void(std::string_view)>;

// Every training row is labelled. Throws Error.
[[nodiscard]] LoadedData load_training(const TrainingSource& source, const Checkpoint& model, const Notice& notice);

// The lower part of a backbone as a model of its own, to be trained truncated: the first `layers`
// layers and no heads; pretrained poolers of those layers stay. Throws Error (usage) if the model does not have that
// many.
[[nodiscard]] Checkpoint first_layers(const Checkpoint& base, int layers);

}  // namespace exeunt
