// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/defaults.h"

#include <gtest/gtest.h>

namespace exeunt::apps {
namespace {

constexpr int kWide = 384, kThin = 128;

TEST(SuitNarrow, GivesEveryShippedRecipeRatesAndEpochs) {
  for (const std::string& recipe : shipped_recipes()) {
    TrainFlags flags;
    flags.recipe = recipe;
    flags.model = "named";
    EXPECT_EQ(suit_narrow(flags, kThin), "--lr 5e-4 --head-lr 1 --epochs 8") << recipe;
    EXPECT_EQ(flags.lr, 5e-4);
    EXPECT_EQ(flags.head_lr, 1);
    EXPECT_EQ(flags.epochs, 8);
  }
}

TEST(SuitNarrow, LeavesWiderModelsAlone) {
  TrainFlags flags;
  EXPECT_EQ(suit_narrow(flags, kWide), "");
  EXPECT_FALSE(flags.lr || flags.head_lr || flags.epochs);
}

TEST(SuitNarrow, KeepsEpochsThatAreNamed) {
  TrainFlags flags;
  flags.epochs = 2;
  EXPECT_EQ(suit_narrow(flags, kThin), "--lr 5e-4 --head-lr 1");
  EXPECT_EQ(flags.epochs, 2);
  TrainFlags set;
  set.set = {"stages.0.epochs=5"};
  EXPECT_EQ(suit_narrow(set, kThin), "--lr 5e-4 --head-lr 1");
  EXPECT_FALSE(set.epochs) << "a flag would stand above the recipe's field, --set comes last";
}

TEST(SuitNarrow, ChangesNothingForWhoNamesARate) {
  const auto stays = [](const auto& ask) {
    TrainFlags flags;
    ask(flags);
    const TrainFlags before = flags;
    EXPECT_EQ(suit_narrow(flags, kThin), "");
    EXPECT_EQ(flags.lr, before.lr);
    EXPECT_EQ(flags.head_lr, before.head_lr);
    EXPECT_EQ(flags.epochs, before.epochs);
  };
  stays([](TrainFlags& flags) { flags.lr = 2e-5; });
  stays([](TrainFlags& flags) { flags.head_lr = 5; });
  stays([](TrainFlags& flags) { flags.layer_lr = 0.9; });
  stays([](TrainFlags& flags) { flags.preset = "reference"; });
  stays([](TrainFlags& flags) { flags.as_written = true; });
  stays([](TrainFlags& flags) { flags.recipe = "recipes/mine.json"; });
  stays([](TrainFlags& flags) { flags.set = {"heads.pooler=own", "stages.1.lr=1e-4"}; });
  stays([](TrainFlags& flags) { flags.set = {"stages.0.head_lr=2"}; });
}

TEST(SuitNarrow, TakesTheRateOfAnObjectiveForNoRateOfTheModel) {
  TrainFlags flags;
  flags.recipe = "elbert";
  flags.set = {"stages.0.objective.lr=0.1", "policy=full"};
  EXPECT_NE(suit_narrow(flags, kThin), "");
}

}  // namespace
}  // namespace exeunt::apps
