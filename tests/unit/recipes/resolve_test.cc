// SPDX-License-Identifier: Apache-2.0
// One value from each source, and which of them wins.
#include "exeunt/recipes/train_plan.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

ModelSpec wide() {
  ModelSpec spec;
  spec.hidden = 768;
  spec.layers = 12;
  return spec;
}

ModelSpec narrow() {
  ModelSpec spec = wide();
  spec.hidden = 128;
  return spec;
}

const TrainingFacts kRows{.rows = 60000, .labels = 2};

// "0.0005 by data default".
std::string value(const TrainPlan& plan, const std::string& name) {
  for (const PlannedValue& one : plan.values) {
    if (one.name == name) return fmt::format("{} by {}", one.value.dump(), word_of(one.source));
  }
  return "not listed";
}

PlanRequest request_for(const std::string& recipe) {
  PlanRequest request;
  request.recipe = recipe;
  return request;
}

TrainPlan plan_for(const PlanRequest& request, const ModelSpec& model, const TrainingFacts& data) {
  return resolve_plan(find_recipe(request.recipe), request, model, data);
}

TEST(ResolvePlan, ListsTheRecipesOwnRatesAndNothingElseOfIt) {
  const TrainPlan plan = plan_for(request_for("elasticbert"), wide(), kRows);
  EXPECT_EQ(value(plan, "stages.0.lr"), "2e-05 by recipe");
  EXPECT_EQ(value(plan, "stages.0.batch"), "32 by recipe");
  EXPECT_EQ(value(plan, "seed"), "6 by recipe");
  EXPECT_EQ(value(plan, "stages.0.weight_decay"), "not listed");
  EXPECT_EQ(plan.data_default, "");
}

TEST(ResolvePlan, TakesTheCaseOfEachNumberForModelRowsAndProblem) {
  const auto epochs = [](const std::string& recipe, Family family, int64_t rows) {
    ModelSpec spec = wide();
    spec.family = family;
    const CaseNumber number = plan_for(request_for(recipe), spec, {.rows = rows, .labels = 2}).recipe.stages[0].epochs;
    EXPECT_TRUE(number.is_plain());
    return number.value;
  };
  EXPECT_EQ(epochs("deebert", Family::bert, 60000), 3);
  EXPECT_EQ(epochs("deebert", Family::roberta, 60000), 10);
  EXPECT_EQ(epochs("exeunt", Family::bert, 60000), 3);
  EXPECT_EQ(epochs("exeunt", Family::bert, 900), 6);
  const TrainPlan numbers = plan_for(request_for("exeunt"), wide(), {.problem = Problem::regression, .rows = 60000});
  EXPECT_EQ(value(numbers, "stages.0.lr"), "2e-05 by recipe");
  EXPECT_EQ(numbers.recipe.stages[1].lr.value, 3e-3);
}

TEST(ResolvePlan, TakesTheObjectiveForFewPairs) {
  const TrainPlan plan = plan_for(request_for("exeunt"), wide(), {.rows = 900, .labels = 2, .pairs = 900});
  EXPECT_EQ(plan.recipe.stages[0].objective.kind, ObjectiveKind::linear);
  EXPECT_FALSE(plan.recipe.stages[0].objective.few_pairs);
}

TEST(ResolvePlan, PutsDataDefaultsOverTheRecipeAndFlagsOverBoth) {
  PlanRequest request = request_for("exeunt");
  const TrainPlan defaults = plan_for(request, narrow(), kRows);
  EXPECT_EQ(value(defaults, "stages.0.lr"), "0.0005 by data default");
  EXPECT_EQ(value(defaults, "stages.1.lr"), "0.001 by recipe") << "a stage that takes no flags";
  EXPECT_EQ(defaults.data_default, "a narrow model (hidden size 128)");
  request.changes.stage = {{"epochs", 5}};
  request.changes.set = {"heads.init=copy_pooler"};
  const TrainPlan flags = plan_for(request, narrow(), {.rows = 900, .labels = 2});
  EXPECT_EQ(value(flags, "stages.0.lr"), "0.0005 by data default");
  EXPECT_EQ(value(flags, "stages.0.epochs"), "5.0 by flag");
  EXPECT_EQ(value(flags, "heads.init"), "\"copy_pooler\" by flag");
  request.as_written = true;
  EXPECT_EQ(value(plan_for(request, narrow(), kRows), "stages.0.lr"), "5e-05 by recipe");
}

TEST(ResolvePlan, NamesTheFlagWhereItRepeatsTheRecipe) {
  PlanRequest request = request_for("exeunt");
  request.changes.stage = {{"lr", 5e-5}};
  request.changes.set = {"stages.0.epochs.roberta=4"};
  const TrainPlan plan = plan_for(request, wide(), kRows);
  EXPECT_EQ(value(plan, "stages.0.lr"), "5e-05 by flag");
  EXPECT_EQ(value(plan, "stages.0.epochs"), "3.0 by flag") << "one of its cases was set";
}

TEST(ResolvePlan, PutsFlagsOverThePreset) {
  PlanRequest request = request_for("elbert");
  request.preset = "reference";
  request.changes.stage = {{"batch", 8}};
  const TrainPlan plan = plan_for(request, narrow(), {.task = "RTE", .rows = 2500, .labels = 2});
  EXPECT_EQ(value(plan, "stages.0.epochs"), "8.0 by preset");
  EXPECT_EQ(value(plan, "stages.0.lr"), "5e-05 by preset") << "and not a narrow model's";
  EXPECT_EQ(value(plan, "stages.0.batch"), "8 by flag");
  EXPECT_EQ(value(plan, "compat.adamw"), "\"torch\" by preset");
  EXPECT_EQ(plan.recipe.compat.dyn_grad, LearnedGradient::fresh);
  EXPECT_TRUE(plan.whole_warmup);
}

TEST(ResolvePlan, PutsFlagsOverTheModelsConfig) {
  PlanRequest request = request_for("elbert");
  request.model_config = {"stages.0.objective.init=2", "stages.0.objective.lr=0.5"};
  request.changes.objective = {{"lr", 0.25}};
  const TrainPlan plan = plan_for(request, wide(), kRows);
  EXPECT_EQ(value(plan, "stages.0.objective.init"), "2.0 by model config");
  EXPECT_EQ(value(plan, "stages.0.objective.lr"), "0.25 by flag");
}

TEST(ResolvePlan, LowersEpochsToTheTimeLimit) {
  PlanRequest request = request_for("deebert");
  request.max_steps = 100;
  request.time_limit = 90;
  request.seconds = [](const TrainPlan& plan) { return 90.0 * plan.recipe.stages[0].epochs.value; };
  const TrainPlan plan = plan_for(request, wide(), kRows);
  EXPECT_DOUBLE_EQ(plan.recipe.stages[0].epochs.value, 0.9);
  EXPECT_DOUBLE_EQ(plan.recipe.stages[1].epochs.value, 0.9);
  EXPECT_EQ(plan.max_steps, 30);
  EXPECT_EQ(plan.seconds, 81);
  EXPECT_THAT(value(plan, "stages.1.epochs"), testing::HasSubstr("by time limit"));
  EXPECT_THAT(plan.notices, testing::ElementsAre("--time-limit: 1.8 epochs instead of 6.0, which would take "
                                                 "about 4 min"));
  request.time_limit = 900;
  EXPECT_EQ(plan_for(request, wide(), kRows).recipe.stages[0].epochs.value, 3) << "there is time enough";
}

TEST(ResolvePlan, ListsSettingsThatAreNotTheDefault) {
  PlanRequest request = request_for("exeunt");
  request.accumulation = 4;
  const TrainPlan plan = plan_for(request, wide(), kRows);
  EXPECT_EQ(value(plan, "accumulation"), "4 by flag");
  EXPECT_EQ(value(plan, "window"), "not listed");
  EXPECT_EQ(values_json(plan).at("accumulation"), (OrderedJson{{"value", 4}, {"source", "flag"}}));
}

TEST(RequestedRecipe, RefusesFlagsBeforeModelAndDataAreKnown) {
  PlanRequest request = request_for("exeunt");
  request.changes.set = {"stages.0.batch=0"};
  const Error error = error_of([&] { (void)requested_recipe(request); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), testing::HasSubstr("recipe exeunt with these flags: stages[0]: field 'batch'"));
  PlanRequest resumed = request_for("exeunt");
  resumed.time_limit = 1;
  resumed.resume = true;
  EXPECT_STREQ(error_of([&] { (void)requested_recipe(resumed); }).what(), "--time-limit: not with --resume");
}

}  // namespace
}  // namespace exeunt
