// SPDX-License-Identifier: Apache-2.0
// Settings that follow from the model and the data.
#include "exeunt/recipes/defaults.h"

#include <gtest/gtest.h>

namespace exeunt {
namespace {

constexpr RunShape kWide{.hidden = 768, .layers = 12, .labels = 2};
constexpr RunShape kThin{.hidden = 128, .layers = 6, .labels = 2, .rows = 60000};

Recipe recipe_with(const std::string& name, const RecipeChanges& changes) {
  return changed(find_recipe(name), changes, "flags");
}

TEST(AdaptToShape, GivesEveryBundledRecipeRatesAndEpochs) {
  for (const std::string& recipe : recipe_names()) {
    RecipeChanges changes;
    EXPECT_EQ(adapt_to_shape(changes, recipe, kThin).flags, "--lr 5e-4 --head-lr 1 --epochs 8") << recipe;
    const Json want{{"lr", 5e-4}, {"head_lr", 1}, {"epochs", 8}};
    EXPECT_EQ(changes.stage, want);
  }
}

TEST(AdaptToShape, LeavesWiderModelsAlone) {
  RecipeChanges changes;
  EXPECT_EQ(adapt_to_shape(changes, "exeunt", kWide).flags, "");
  EXPECT_TRUE(changes.stage.empty());
}

TEST(AdaptToShape, KeepsEpochsThatAreNamed) {
  RecipeChanges flag, set;
  flag.stage = {{"epochs", 2}};
  EXPECT_EQ(adapt_to_shape(flag, "exeunt", kThin).flags, "--lr 5e-4 --head-lr 1");
  EXPECT_EQ(flag.stage["epochs"], 2);
  set.set = {"stages.0.epochs=5"};
  EXPECT_EQ(adapt_to_shape(set, "exeunt", kThin).flags, "--lr 5e-4 --head-lr 1");
  EXPECT_FALSE(set.stage.contains("epochs")) << "a flag would stand above the recipe's field, --set comes last";
}

TEST(AdaptToShape, ChangesNothingForAnExplicitRateOrARecipeFile) {
  const auto stays = [](RecipeChanges changes, const std::string& recipe = "exeunt") {
    const Json before = changes.stage;
    EXPECT_EQ(adapt_to_shape(changes, recipe, kThin).flags, "");
    EXPECT_EQ(changes.stage, before);
  };
  for (const char* rate : {"lr", "head_lr", "layer_lr"}) {
    RecipeChanges changes;
    changes.stage = {{rate, 0.5}};
    stays(changes);
  }
  stays({}, "recipes/mine.json");
  for (const std::vector<std::string>& set : {std::vector<std::string>{"heads.pooler=own", "stages.1.lr=1e-4"},
                                              std::vector<std::string>{"stages.0.head_lr=2"}}) {
    RecipeChanges changes;
    changes.set = set;
    stays(changes);
  }
}

TEST(AdaptToShape, DoesNotTakeTheRateOfAnObjectiveForTheModels) {
  RecipeChanges changes;
  changes.set = {"stages.0.objective.lr=0.1", "policy=full"};
  EXPECT_NE(adapt_to_shape(changes, "elbert", kThin).flags, "");
}

// The table of docs/decisions/0015-defaults-follow-the-data.md.
TEST(AdaptToShape, FollowsModelLabelsAndRows) {
  const auto flags = [](RunShape shape, const std::string& recipe = "exeunt") {
    RecipeChanges changes;
    return adapt_to_shape(changes, recipe, shape).flags;
  };
  const std::string start = " --set heads.init=prototypes";
  for (const int layers : {6, 12}) {
    EXPECT_EQ(flags({384, layers, 77, 300}), "--lr 1e-4 --epochs 12 --batch 8 --label-smoothing 0.1" + start);
    EXPECT_EQ(flags({384, layers, 77, 1500}), "--lr 1e-4 --epochs 8 --label-smoothing 0.1" + start);
    EXPECT_EQ(flags({384, layers, 77, 10000}), "--lr 1e-4 --label-smoothing 0.1" + start);
    EXPECT_EQ(flags({384, layers, 2, 4000}), "--lr 1e-4" + start);
    EXPECT_EQ(flags({384, layers, 2, 60000}), "");
  }
  EXPECT_EQ(flags({384, 6, 2, 2500, true}), "--lr 1e-4 --epochs 10");
  EXPECT_EQ(flags({384, 12, 2, 2500, true}), "");
  EXPECT_EQ(flags({384, 6, 2, 60000, true}), "");
  EXPECT_EQ(flags({128, 6, 77, 300}), "--lr 1e-3 --head-lr 1 --epochs 24 --batch 8 --label-smoothing 0.1" + start);
  EXPECT_EQ(flags({128, 6, 77, 1500}), "--lr 1e-3 --head-lr 1 --epochs 24 --label-smoothing 0.1" + start);
  EXPECT_EQ(flags({128, 6, 77, 10000}), "--lr 1e-3 --head-lr 1 --epochs 12 --label-smoothing 0.1" + start);
  EXPECT_EQ(flags({128, 6, 5, 2000}), "--lr 5e-4 --head-lr 1 --epochs 8" + start);
  EXPECT_EQ(flags({128, 6, 2, 2000, true}), "--lr 5e-4 --head-lr 1 --epochs 8") << "pairs";
  EXPECT_EQ(flags({128, 6, 0, 2000}), "--lr 5e-4 --head-lr 1 --epochs 8") << "a regression";
  EXPECT_EQ(flags({128, 6, 5, 2000, false, Problem::multi_label}), "--lr 5e-4 --head-lr 1 --epochs 8")
      << "several labels at once";
  EXPECT_EQ(flags({384, 6, 5, 2000, false, Problem::multi_label}), "--lr 1e-4") << "several labels at once";
  EXPECT_EQ(flags({128, 6, 5, 2000}, "pabee"), "--lr 5e-4 --head-lr 1 --epochs 8");
  EXPECT_EQ(flags({128, 6, 77, 1500}, "pabee"), "--lr 5e-4 --head-lr 1 --epochs 8");
  // What was not measured stays as the recipe has it: deeper or wider models, regressions, and the papers' recipes.
  EXPECT_EQ(flags({384, 24, 77, 1500}), "");
  EXPECT_EQ(flags({768, 6, 77, 1500}), "");
  EXPECT_EQ(flags({384, 6, 0, 1500}), "");
  EXPECT_EQ(flags({384, 6, 77, 1500}, "pabee"), "");
}

TEST(AdaptToShape, SaysWhyAndLeavesWhatIsNamed) {
  const RunShape banking{.hidden = 384, .layers = 6, .labels = 77, .rows = 1500};
  RecipeChanges changes, named;
  EXPECT_EQ(adapt_to_shape(changes, "exeunt", banking).why,
            "1500 rows with 77 labels for a small model (6 layers, hidden size 384)");
  EXPECT_EQ(changes.stage, (Json{{"lr", 1e-4}, {"epochs", 8}, {"label_smoothing", 0.1}}));
  EXPECT_EQ(recipe_with("exeunt", changes).heads.init, HeadInit::prototypes);
  named.stage = {{"label_smoothing", 0.0}, {"epochs", 3}};
  named.set = {"heads.init=normal"};
  EXPECT_EQ(adapt_to_shape(named, "exeunt", banking).flags, "--lr 1e-4 --set heads.init=prototypes");
  EXPECT_EQ(recipe_with("exeunt", named).heads.init, HeadInit::normal);
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
