// SPDX-License-Identifier: Apache-2.0
// What the command line and presets change in a recipe.
#include <gtest/gtest.h>

#include "exeunt/recipes/recipe.h"
#include "exeunt/recipes/settings.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

Recipe changed_recipe(const std::string& name, const RecipeChanges& changes) {
  return changed(find_recipe(name), changes, "flags");
}

std::string usage_of(const std::string& name, const RecipeChanges& changes) {
  const Error error = error_of([&] { (void)changed_recipe(name, changes); });
  EXPECT_EQ(error.code(), Code::usage);
  return error.what();
}

TEST(RecipeChanges, ReachEveryStage) {
  RecipeChanges changes;
  changes.stage = {{"lr", 1e-4}, {"batch", 4}, {"keep_best", "mean"}};
  changes.recipe = {{"seed", 7}};
  changes.set = {"policy=full", "stages.1.clip=0.5", "heads.inner=32", "stages.0.epochs.roberta=4"};
  const Recipe recipe = changed_recipe("deebert", changes);
  ASSERT_EQ(recipe.stages.size(), 2U);
  for (const StageSpec& stage : recipe.stages) {
    EXPECT_EQ(stage.lr.value, 1e-4);
    EXPECT_EQ(stage.batch, 4);
    EXPECT_EQ(stage.keep_best, KeepBest::mean);
  }
  EXPECT_EQ(recipe.seed, 7);
  EXPECT_EQ(recipe.policy, "full");
  EXPECT_EQ(recipe.stages[0].clip, 1);
  EXPECT_EQ(recipe.stages[1].clip, 0.5);
  EXPECT_EQ(recipe.heads.inner, 32);
  EXPECT_EQ(recipe.stages[0].epochs.value, 3);
  EXPECT_EQ(recipe.stages[0].epochs.families.at(Family::roberta), 4);
}

TEST(RecipeChanges, NumberMayDependOnAnyFamily) {
  RecipeChanges changes;
  changes.set = {"stages.0.epochs.albert=5"};
  const CaseNumber epochs = changed_recipe("deebert", changes).stages[0].epochs;
  EXPECT_EQ(number_for(epochs, {.family = Family::albert, .rows = 100}), 5);
  EXPECT_EQ(number_for(epochs, {.family = Family::roberta, .rows = 100}), 10);
  EXPECT_EQ(number_for(epochs, {.family = Family::bert, .rows = 100}), 3);
}

TEST(RecipeChanges, ChangedNumberReplacesItsCases) {
  RecipeChanges changes;
  changes.stage = {{"epochs", 2}};
  EXPECT_EQ(number_for(changed_recipe("deebert", changes).stages[0].epochs, {.family = Family::roberta}), 2);
}

TEST(RecipeChanges, ChangedObjectiveReachesThoseThatHaveTheField) {
  RecipeChanges changes;
  changes.objective = {{"temperature", 5}, {"lr", 0.5}};
  const Recipe distilled = changed_recipe("deebert-sd", changes);
  EXPECT_EQ(distilled.stages[0].objective.temperature, 3);  // kind last
  EXPECT_EQ(distilled.stages[1].objective.temperature, 5);
  EXPECT_EQ(distilled.stages[1].objective.lr, 0.01);
  EXPECT_EQ(changed_recipe("elbert", changes).stages[0].objective.lr, 0.5);
}

// Rates and epochs for the model are not those for new exits on a frozen one.
TEST(RecipeChanges, FlagsDoNotChangeStageThatTakesNone) {
  RecipeChanges changes;
  changes.stage = {{"lr", 1e-4}, {"epochs", 2}};
  changes.objective = {{"temperature", 5}};
  const Recipe before = find_recipe("attach"), after = changed_recipe("attach", changes);
  EXPECT_EQ(after.stages[0].lr.value, 1e-4);
  EXPECT_EQ(after.stages[0].epochs.value, 2);
  EXPECT_EQ(fields_json(after.stages[1]), fields_json(before.stages[1]));
  changes.set = {"stages.1.lr=0.5"};
  EXPECT_EQ(changed_recipe("attach", changes).stages[1].lr.value, 0.5);
}

// Who lowers it for want of memory wants it low in every stage.
TEST(RecipeChanges, ChangedBatchSizeReachesStageThatTakesNoFlags) {
  RecipeChanges changes;
  changes.stage = {{"lr", 1e-4}, {"batch", 8}};
  const Recipe before = find_recipe("attach"), after = changed_recipe("attach", changes);
  EXPECT_EQ(after.stages[0].batch, 8);
  EXPECT_EQ(after.stages[1].batch, 8);
  EXPECT_EQ(after.stages[1].lr.value, before.stages[1].lr.value);
}

TEST(RecipeChanges, RejectsInvalidChangesAsUsageErrors) {
  const auto set = [](const std::string& text) {
    RecipeChanges changes;
    changes.set = {text};
    return usage_of("deebert", changes);
  };
  EXPECT_EQ(set("nowhere"), "--set: got 'nowhere', want FIELD=VALUE, e.g. heads.pooler=shared");
  EXPECT_EQ(set("stages.2.lr=1"), "--set: got 'stages.2.lr=1', want stages.N.FIELD with N from 0 to 1");
  EXPECT_EQ(set("stages.0=1"), "--set: got 'stages.0=1', want stages.N.FIELD with N from 0 to 1");
  EXPECT_EQ(set("stages.0.batch=0"), "flags: stages[0]: field 'batch': got 0, want a whole number from 1 to 1048576");
  EXPECT_EQ(set("stages.0.objective.kind.deeper=1"),
            "flags: stages[0]: objective: field 'kind': got an object, want a string");
  EXPECT_EQ(set("heads.poler=own"), "flags: heads: unknown field 'poler'");
  EXPECT_EQ(set("exits=last"), "flags: stages[1]: trains the exits before the last, but the recipe has only the last");
}

TEST(RecipeFor, TakesTheObjectiveThatFewPairsAskFor) {
  const auto kind = [](int64_t pairs) { return recipe_for(find_recipe("exeunt"), "", pairs).stages[0].objective.kind; };
  EXPECT_EQ(kind(kFewPairs - 1), ObjectiveKind::linear);
  EXPECT_EQ(kind(kFewPairs), ObjectiveKind::sum);
  EXPECT_EQ(kind(0), ObjectiveKind::sum);
  RecipeChanges changes;
  changes.set = {"stages.0.objective.kind=last"};
  const Recipe recipe = changed(recipe_for(find_recipe("exeunt"), "", kFewPairs - 1), changes, "flags");
  EXPECT_EQ(recipe.stages[0].objective.kind, ObjectiveKind::last);
}

TEST(RecipeFor, TakesTheAnchorThatRomeBertHasForTheTask) {
  const auto anchor = [](const Recipe& recipe, const char* task) {
    return recipe_for(recipe, task, 0).gradient.anchor.value;
  };
  const Recipe rome = find_recipe("romebert");
  for (const char* task : {"MNLI", "MNLI-mm", "QQP"}) EXPECT_EQ(anchor(rome, task), Anchor::last) << task;
  for (const char* task : {"RTE", ""}) EXPECT_EQ(anchor(rome, task), Anchor::early) << task;
  Json other = recipe_json(rome);
  other["gradient"]["anchor"] = "last";
  EXPECT_EQ(anchor(parse_recipe(other, "other"), "RTE"), Anchor::last);
  other["gradient"]["anchor"] = {{"default", "early"}, {"RTE", "lasst"}};
  EXPECT_THAT(error_of([&] { (void)parse_recipe(other, "other"); }).what(), testing::HasSubstr("field 'RTE'"));
}

TEST(NamedFields, AreWrittenAsSetWritesThem) {
  RecipeChanges changes;
  changes.recipe = {{"seed", 1}};
  changes.stage = {{"batch", 4}, {"lr", 1}};
  changes.objective = {{"temperature", 2}};
  changes.set = {"heads.inner=32"};
  EXPECT_THAT(named_fields(find_recipe("attach"), changes),
              testing::UnorderedElementsAre("seed", "stages.0.batch", "stages.0.lr", "stages.1.batch", "heads.inner"))
      << "a stage that takes no flags, and an objective without a temperature";
  EXPECT_THAT(named_fields(find_recipe("romebert-sd"), changes), testing::Contains("stages.0.objective.temperature"));
}

TEST(TrainSettings, StoresSettingsThatShapeTheWeights) {
  const OrderedJson stored = fields_json(TrainSettings{}, kShapesWeights);
  for (const char* name : {"max_steps", "warmup_steps", "adam_epsilon", "accumulation", "window", "precision"}) {
    EXPECT_TRUE(stored.contains(name)) << name;
  }
  for (const char* name : {"resume", "overwrite", "threads", "log_every"}) EXPECT_FALSE(stored.contains(name)) << name;
}

}  // namespace
}  // namespace exeunt
