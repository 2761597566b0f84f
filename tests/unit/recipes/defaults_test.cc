// SPDX-License-Identifier: Apache-2.0
// Settings that follow from the model and the data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/recipes/train_plan.h"

namespace exeunt {
namespace {

constexpr RunShape kWide{.hidden = 768, .layers = 12, .labels = 2};
constexpr RunShape kThin{.hidden = 128, .layers = 6, .labels = 2, .rows = 60000};

// The changes as flags, in the order of the list of fields: "lr 0.0005 head_lr 1".
std::string text_of(const RecipeChanges& changes) {
  std::string out;
  for (const char* field : {"lr", "head_lr", "epochs", "batch", "label_smoothing"}) {
    if (changes.stage.contains(field)) out += fmt::format("{} {:g} ", field, changes.stage[field].get<double>());
  }
  for (const std::string& text : changes.set) out += text + " ";
  if (!out.empty()) out.pop_back();
  return out;
}

std::string defaults(const RunShape& shape, const std::string& recipe = "exeunt", const RecipeChanges& users = {}) {
  return text_of(defaults_for(shape, recipe, users).changes);
}

TEST(DataDefaults, GiveEveryBundledRecipeRatesAndEpochsForANarrowModel) {
  for (const std::string& recipe : recipe_names()) {
    EXPECT_EQ(defaults(kThin, recipe), "lr 0.0005 head_lr 1 epochs 8") << recipe;
  }
}

TEST(DataDefaults, LeaveWiderModelsAlone) {
  EXPECT_EQ(defaults(kWide), "");
  EXPECT_EQ(defaults_for(kWide, "exeunt", {}).why, "");
}

TEST(DataDefaults, LeaveOutFieldsThatTheUserNames) {
  RecipeChanges flag, set;
  flag.stage = {{"epochs", 2}};
  EXPECT_EQ(defaults(kThin, "exeunt", flag), "lr 0.0005 head_lr 1");
  set.set = {"stages.0.epochs=5"};
  EXPECT_EQ(defaults(kThin, "exeunt", set), "lr 0.0005 head_lr 1");
}

TEST(DataDefaults, AreEmptyForAnExplicitRateOrARecipeFile) {
  for (const char* rate : {"lr", "head_lr", "layer_lr"}) {
    RecipeChanges changes;
    changes.stage = {{rate, 0.5}};
    EXPECT_EQ(defaults(kThin, "exeunt", changes), "") << rate;
  }
  EXPECT_EQ(defaults(kThin, "recipes/mine.json"), "");
  for (const std::vector<std::string>& set : {std::vector<std::string>{"heads.pooler=own", "stages.1.lr=1e-4"},
                                              std::vector<std::string>{"stages.0.head_lr=2"}}) {
    RecipeChanges changes;
    changes.set = set;
    EXPECT_EQ(defaults(kThin, "exeunt", changes), "");
  }
}

TEST(DataDefaults, DoNotTakeTheRateOfAnObjectiveForTheModels) {
  RecipeChanges changes;
  changes.set = {"stages.0.objective.lr=0.1", "policy=full"};
  EXPECT_NE(defaults(kThin, "elbert", changes), "");
}

// The table of docs/decisions/0015-defaults-follow-the-data.md.
TEST(DataDefaults, FollowModelLabelsAndRows) {
  const std::string start = " heads.init=prototypes";
  for (const int layers : {6, 12}) {
    EXPECT_EQ(defaults({384, layers, 77, 300}), "lr 0.0001 epochs 12 batch 8 label_smoothing 0.1" + start);
    EXPECT_EQ(defaults({384, layers, 77, 1500}), "lr 0.0001 epochs 8 label_smoothing 0.1" + start);
    EXPECT_EQ(defaults({384, layers, 77, 10000}), "lr 0.0001 label_smoothing 0.1" + start);
    EXPECT_EQ(defaults({384, layers, 2, 4000}), "lr 0.0001" + start);
    EXPECT_EQ(defaults({384, layers, 2, 60000}), "");
  }
  EXPECT_EQ(defaults({384, 6, 2, 2500, true}), "lr 0.0001 epochs 10");
  EXPECT_EQ(defaults({384, 12, 2, 2500, true}), "");
  EXPECT_EQ(defaults({384, 6, 2, 60000, true}), "");
  EXPECT_EQ(defaults({128, 6, 77, 300}), "lr 0.001 head_lr 1 epochs 24 batch 8 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 77, 1500}), "lr 0.001 head_lr 1 epochs 24 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 77, 10000}), "lr 0.001 head_lr 1 epochs 12 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 5, 2000}), "lr 0.0005 head_lr 1 epochs 8" + start);
  EXPECT_EQ(defaults({128, 6, 2, 2000, true}), "lr 0.0005 head_lr 1 epochs 8") << "pairs";
  EXPECT_EQ(defaults({128, 6, 0, 2000}), "lr 0.0005 head_lr 1 epochs 8") << "a regression";
  EXPECT_EQ(defaults({128, 6, 5, 2000, false, Problem::multi_label}), "lr 0.0005 head_lr 1 epochs 8")
      << "several labels at once";
  EXPECT_EQ(defaults({384, 6, 5, 2000, false, Problem::multi_label}), "lr 0.0001") << "several labels at once";
  EXPECT_EQ(defaults({128, 6, 5, 2000}, "pabee"), "lr 0.0005 head_lr 1 epochs 8");
  EXPECT_EQ(defaults({128, 6, 77, 1500}, "pabee"), "lr 0.0005 head_lr 1 epochs 8");
  // What was not measured stays as the recipe has it: deeper or wider models, regressions, and the papers' recipes.
  EXPECT_EQ(defaults({384, 24, 77, 1500}), "");
  EXPECT_EQ(defaults({768, 6, 77, 1500}), "");
  EXPECT_EQ(defaults({384, 6, 0, 1500}), "");
  EXPECT_EQ(defaults({384, 6, 77, 1500}, "pabee"), "");
}

// Both sides of every limit of the table.
TEST(DataDefaults, ChangeAtTheLimits) {
  const std::string start = " heads.init=prototypes";
  EXPECT_EQ(defaults({384, 6, 15, 20000}), "") << "few labels, many rows";
  EXPECT_EQ(defaults({384, 6, 16, 20000}), "lr 0.0001 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({384, 6, 16, 999}), "lr 0.0001 epochs 12 batch 8 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({384, 6, 16, 1000}), "lr 0.0001 epochs 8 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({384, 6, 16, 4999}), "lr 0.0001 epochs 8 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({384, 6, 16, 5000}), "lr 0.0001 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({384, 6, 1, 9999}), "lr 0.0001" + start);
  EXPECT_EQ(defaults({384, 6, 1, 10000}), "");
  EXPECT_EQ(defaults({384, 6, 1, 4999, true}), "lr 0.0001 epochs 10");
  EXPECT_EQ(defaults({384, 6, 1, 5000, true}), "");
  EXPECT_EQ(defaults({384, 7, 1, 4999, true}), "") << "deeper";
  EXPECT_EQ(defaults({384, 6, 0, 4999, true}), "") << "a regression";
  EXPECT_EQ(defaults({384, 12, 1, 9999}), "lr 0.0001" + start);
  EXPECT_EQ(defaults({384, 13, 1, 9999}), "") << "deeper";
  EXPECT_EQ(defaults({511, 6, 1, 9999}), "lr 0.0001" + start);
  EXPECT_EQ(defaults({512, 6, 1, 9999}), "") << "wider";
  EXPECT_EQ(defaults({255, 6, 15, 20000}), "lr 0.0005 head_lr 1 epochs 8");
  EXPECT_EQ(defaults({256, 6, 15, 20000}), "");
  EXPECT_EQ(defaults({128, 6, 16, 999}), "lr 0.001 head_lr 1 epochs 24 batch 8 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 16, 1000}), "lr 0.001 head_lr 1 epochs 24 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 16, 5000}), "lr 0.001 head_lr 1 epochs 12 label_smoothing 0.1" + start);
  EXPECT_EQ(defaults({128, 6, 1, 9999}), "lr 0.0005 head_lr 1 epochs 8" + start);
  EXPECT_EQ(defaults({128, 6, 1, 10000}), "lr 0.0005 head_lr 1 epochs 8");
}

TEST(DataDefaults, NameWhatTheyFollowFrom) {
  EXPECT_EQ(defaults_for({128, 6, 15, 300}, "exeunt", {}).why, "a narrow model (hidden size 128)");
  EXPECT_EQ(defaults_for({128, 6, 16, 300}, "exeunt", {}).why,
            "300 rows with 16 labels for a small model (6 layers, hidden size 128)");
  EXPECT_EQ(defaults_for({384, 12, 2, 300}, "exeunt", {}).why,
            "300 rows with 2 labels for a small model (12 layers, hidden size 384)");
}

TEST(DurationText, IsInSecondsMinutesOrHours) {
  EXPECT_EQ(duration_text(0), "1 s");
  EXPECT_EQ(duration_text(1.6), "2 s");
  EXPECT_EQ(duration_text(89), "89 s");
  EXPECT_EQ(duration_text(90), "2 min");
  EXPECT_EQ(duration_text(5399), "90 min");
  EXPECT_EQ(duration_text(5400), "1.5 h");
  EXPECT_EQ(duration_text(3'600'000), "1000.0 h");
}

TEST(MaxLength, LeavesNearlyAllTextsWhole) {
  const auto length = [](size_t texts, int tokens, size_t longer, int longer_tokens, int positions = 512) {
    std::vector<int> lengths(texts, tokens);
    lengths.insert(lengths.begin(), longer, longer_tokens);  // not sorted
    return max_length_for(lengths, positions);
  };
  EXPECT_EQ(length(100, 12, 0, 0), 128);
  EXPECT_EQ(length(100, 128, 0, 0), 128);
  EXPECT_EQ(length(100, 129, 0, 0), 192);
  EXPECT_EQ(length(99, 20, 1, 400), 128) << "one text of a hundred may be truncated";
  EXPECT_EQ(length(98, 20, 2, 400), 448) << "two of a hundred are more than that";
  EXPECT_EQ(length(0, 0, 1, 140), 192);
  EXPECT_EQ(length(100, 1 << 20, 0, 0), 512);
  EXPECT_EQ(length(100, 1 << 20, 0, 0, 4096), 512) << "longer ones are asked for by name";
  EXPECT_EQ(length(100, 300, 0, 0, 200), 200) << "the model has no more positions";
  EXPECT_EQ(length(100, 12, 0, 0, 64), 64);
  EXPECT_EQ(max_length_for({}, 512), 128);
}

}  // namespace
}  // namespace exeunt
