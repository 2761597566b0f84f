// SPDX-License-Identifier: Apache-2.0
// What a training run takes where nobody names it, by its model and its data; a study found what does best where
// (docs/decisions/0015-defaults-follow-the-data.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exeunt/recipes/recipe.h"

namespace exeunt {

// What the defaults of a run depend on besides the recipe.
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
