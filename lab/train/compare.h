// SPDX-License-Identifier: Apache-2.0
// Several recipes trained on the same rows and compared on rows that none of them was trained on, at the speed-up or
// the loss that is asked for. The winner becomes the model of the folder. No torch here.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/train/run.h"
#include "exeunt/train/stage_plan.h"
#include "lab/choose/recommend.h"

namespace exeunt {

// One recipe, and how far it has come.
struct ComparedRecipe {
  std::string name;
  TrainOptions options;
  Workload work = {};
  OrderedJson configuration = {};  // what a finished training must match to be reused
  double seconds = 0;
  bool done = false;
};

struct CompareOptions {
  std::filesystem::path out;
  Goal goal = {};
  bool resume = false, overwrite = false;
  int64_t seed = 42;  // draws the rows that choose: recipes have seeds of their own
  Notice notice = {};
};

struct Compared {
  Recommendation what;
  size_t winner = 0;        // of the candidates
  bool new_policy = false;  // the recommended policy was stored with the winner; else it keeps its recipe's
  OrderedJson json;         // as auto.json has it
  std::deque<ExitTrace> traces;
  std::vector<RunOnTrial> runs;  // refer to `traces`
};

class RecipeComparison {
 public:
  // Throws Error (failure) if the evaluation rows are too few, (usage) if a recipe does not fit the model.
  RecipeComparison(const Checkpoint& base, const TrainingData& data, CompareOptions options,
                   std::vector<ComparedRecipe> candidates);

  // Finds what an earlier start finished. Throws Error (usage) where the folder is taken or was trained otherwise.
  void open();
  [[nodiscard]] const std::vector<ComparedRecipe>& candidates() const noexcept { return candidates_; }
  // How long a text takes to train on, from a few steps of the first recipe that is not done.
  [[nodiscard]] double seconds_per_text();
  // Trains what is not done. The name of the candidate in which it was asked to stop, or nothing. What is trained
  // stays: with `resume`, finished recipes are not trained again.
  [[nodiscard]] std::optional<std::string> train_all();
  // Chooses, and makes the winner the model of `out`.
  [[nodiscard]] Compared choose();

 private:
  void write_record(const OrderedJson& result) const;
  [[nodiscard]] bool train_one(ComparedRecipe& candidate);  // false if it was asked to stop
  [[nodiscard]] bool keep(const ComparedRecipe& winner, const Recommendation& what) const;

  const Checkpoint& base_;
  const TrainingData& data_;
  CompareOptions options_;
  std::vector<ComparedRecipe> candidates_;
};

// Without a target: the usual loss, or the smallest of 2, 5 and 10 % that so many rows can show. Half of the rows
// choose, and one loss more among one row more must stay within it.
[[nodiscard]] double smallest_drop_shown(size_t rows, double drop);

}  // namespace exeunt
