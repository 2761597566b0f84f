// SPDX-License-Identifier: Apache-2.0
// The values of a training, decided once, and where each of them comes from. Whatever runs afterwards reads plain
// numbers from the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/recipes/recipe.h"
#include "exeunt/recipes/settings.h"

namespace exeunt {

// In the order in which they are applied: a later source replaces an earlier one.
enum class ValueSource { recipe, preset, data_default, model_config, flag, time_limit };
inline constexpr std::array<std::string_view, 6> kValueSources{"recipe",       "preset", "data default",
                                                               "model config", "flag",   "time limit"};
constexpr const auto& names_of(ValueSource) noexcept {
  return kValueSources;
}

// What the values depend on, of the rows to train on.
struct TrainingFacts {
  std::string task = {};  // name in the table of tasks, or empty
  Problem problem = Problem::classification;
  int64_t rows = 0, labels = 0;
  int64_t pairs = 0;      // rows that show a second segment; 0 where the model has no segments
  bool of_pairs = false;  // each row has two texts
};

struct PlannedValue {
  std::string name;  // as --set writes it: "stages.0.lr"
  OrderedJson value;
  ValueSource source = ValueSource::recipe;
};

struct TrainPlan : TrainSettings {
  Recipe recipe = {};         // without cases: every number is the one for this model and this data
  bool whole_warmup = false;  // round the recipe's share of warm-up steps down
  // Rates, epochs, batch, warm-up and seed, and whatever is not the recipe's own.
  std::vector<PlannedValue> values = {};
  std::string data_default = {};          // why there are values by this source; empty = there are none
  std::vector<std::string> notices = {};  // for the user
  std::optional<double> seconds = {};     // expected training time, where it was asked for
};

// What the user asked for.
struct PlanRequest : TrainSettings {
  std::string recipe = "exeunt";               // as find_recipe() takes it
  RecipeChanges changes = {};                  // by flags and --set
  std::string preset = {};                     // "reference", or none
  bool as_written = false;                     // no data defaults
  std::vector<std::string> model_config = {};  // FIELD=VALUE that the model's config.json names
  double time_limit = 0;                       // seconds to train; 0 = as long as it takes
  // How long a plan takes on this machine. Called once, if it is set.
  std::function<double(const TrainPlan&)> seconds = {};
};

// The order: the recipe's case for the task and the number of pairs, then the preset or else the defaults that follow
// model and data, the model's config.json, flags, --set; of each number the case for this model and these rows; last,
// fewer epochs where the time limit asks for them. Throws Error: usage.
[[nodiscard]] TrainPlan resolve_plan(const Recipe& recipe, const PlanRequest& request, const ModelSpec& model,
                                     const TrainingFacts& data);

// The recipe by its name, without the changes. Refuses flags that no model and no data can make valid. Throws Error
// (usage).
[[nodiscard]] Recipe requested_recipe(const PlanRequest& request);

// {"stages.0.lr": {"value": 0.0005, "source": "data default"}, …}
[[nodiscard]] OrderedJson values_json(const TrainPlan& plan);

// "45 s", "6 min", "1.5 h".
[[nodiscard]] std::string duration_text(double seconds);

// What a run takes where nobody names it, by its model and its data; a study found what does best where
// (docs/decisions/0015-defaults-follow-the-data.md). What the defaults of a run depend on besides the recipe.
struct RunShape {
  int hidden = 0, layers = 0;
  int64_t labels = 0;  // 0: a regression
  int64_t rows = 0;    // to train on
  bool pairs = false;  // of texts
  Problem problem = Problem::classification;
};

// The rates of the bundled recipes were made for wide models and few labels. A narrow model learns next to nothing at
// them, and a small one with many labels is far from done at the end: what the study found to do better becomes the
// default. A recipe file of the user's own stays as it is, and so do fields that the user's own changes name; a rate
// that they name leaves all of it out. `why` is the reason; empty = nothing.
inline constexpr int kNarrow = 256, kSmall = 512;  // hidden sizes
inline constexpr int kShallow = 6, kSmallLayers = 12;
inline constexpr int64_t kManyLabels = 16;
struct DataDefaults {
  std::string why = {};
  RecipeChanges changes = {};
};
[[nodiscard]] DataDefaults defaults_for(const RunShape& shape, const std::string& recipe, const RecipeChanges& users);

// Tokens per text: at least kLeastLength, and where texts are longer as many as leave nearly all of them whole, up to
// kMostLength and to what the model has positions for. Batches are padded to their longest text, so texts that are
// short cost nothing more.
inline constexpr int kLeastLength = 128, kMostLength = 512, kLengthStep = 64;
inline constexpr double kWholeTexts = 0.99;
[[nodiscard]] int max_length_for(std::vector<int> lengths, int positions);

}  // namespace exeunt
