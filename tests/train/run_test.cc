// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "exeunt/runtime/reference.h"
#include "exeunt/train/first_layers.h"
#include "tests/train/small_run.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

TEST(Run, LearnsAndLeavesHuggingFacesTreeBehind) {
  const Scratch scratch(quick_parent());
  const SmallRun run("exeunt");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 60;
  options.save_every = 20;
  options.recipe.stages[0].lr = {.value = 3e-3};
  options.recipe.stages[0].head_lr = 1;
  const TrainResult result = train(run.base, run.data, options);
  EXPECT_EQ(result.steps, 60);
  EXPECT_GT(result.results.at("eval_accuracy").get<double>(), .9);  // the label is whether a token occurs
  const fs::path out = options.out;
  for (const char* name : {"model.safetensors", "manifest.json", "recipe.json", "policy.json", "log.jsonl",
                           "trainer_state.json", "all_results.json", "eval_results.json", "train_results.json",
                           "eval_results.txt", "checkpoint-40", "checkpoint-60"}) {
    EXPECT_TRUE(fs::exists(out / name)) << name;
  }
  EXPECT_FALSE(fs::exists(out / "checkpoint-20"));  // two are kept
  const Json recipe = read_json(out / "recipe.json");
  EXPECT_NO_THROW((void)parse_recipe(recipe, "recipe.json"));
  EXPECT_EQ(recipe.at("run").at("seed"), 42);
}

// Train, export, run: the model on disk answers in the runtime as the network did in training.
TEST(Run, TrainsWhatTheRuntimeThenComputes) {
  for (const char* name : {"exeunt", "berxit", "elbert"}) {
    const Scratch scratch(quick_parent());
    const SmallRun run(name);
    TrainOptions options = run.options(scratch.path() / "out");
    options.max_steps = 5;
    options.save_every = 0;
    const TrainResult result = train(run.base, run.data, options);
    const Reference reference(Checkpoint::open(options.out.string(), {.verify = true}));
    size_t right = 0;
    const Features& eval = run.data.eval;
    for (size_t row = 0; row < eval.rows(); ++row) {
      const ReferenceOutput out = reference.run(eval.ids_of(row), eval.types_of(row), {.keep_rows = false});
      const std::vector<float>& logits = out.exits.back().logits;
      right += (logits[1] > logits[0]) == (eval.gold[row] == 1);
    }
    EXPECT_NEAR(result.results.at("eval_accuracy").get<double>(),
                static_cast<double>(right) / static_cast<double>(eval.rows()), 1e-9)
        << name;
  }
}

class EveryRecipe : public ::testing::TestWithParam<std::string> {};

// The weights, the optimiser, the random numbers of dropout and the order of the data all come back.
TEST_P(EveryRecipe, ResumesBitForBitFromAnyStep) {
  const Scratch scratch(quick_parent());
  const SmallRun run(GetParam());
  TrainOptions options = run.options(scratch.path() / "whole");
  options.save_every = 1;
  options.keep_checkpoints = 0;
  options.max_steps = 12;
  options.accumulation = 2;
  for (StageSpec& stage : options.recipe.stages) {
    stage.eval_every = 3;
    stage.keep_best = KeepBest::mean;
    stage.early_stop.reset();
  }
  (void)train(run.base, run.data, options);
  const std::string want = read_text(options.out / "model.safetensors");
  const std::string want_log = read_text(options.out / "log.jsonl");
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>{}(GetParam())));
  const auto steps = static_cast<uint32_t>(12 * options.recipe.stages.size());
  TrainOptions again = options;
  again.resume = true;
  again.save_every = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string from = "checkpoint-" + std::to_string(1 + random() % (steps - 1));
    again.out = scratch.path() / ("resumed-" + std::to_string(i));
    fs::create_directories(again.out);
    fs::copy(options.out / from, again.out / from, fs::copy_options::recursive);
    (void)train(run.base, run.data, again);
    EXPECT_TRUE(read_text(again.out / "model.safetensors") == want) << from;
    EXPECT_TRUE(read_text(again.out / "log.jsonl") == want_log) << from;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryRecipe, ::testing::ValuesIn(recipe_names()), [](const auto& recipe) {
  std::string name = recipe.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Run, SavesAndEndsWhenAskedToAndGoesOnFromThere) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 4;
  options.save_every = 0;
  std::atomic<bool> stop{true};
  options.stop = &stop;
  const TrainResult first = train(run.base, run.data, options);
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.steps, 1);
  EXPECT_TRUE(fs::exists(options.out / "checkpoint-1"));
  EXPECT_FALSE(fs::exists(options.out / "model.safetensors"));
  options.stop = nullptr;
  options.resume = true;
  EXPECT_EQ(train(run.base, run.data, options).steps, 4);
}

TEST(Run, PassesOverADamagedNewestCheckpointAndSaysSo) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 3;
  options.save_every = 1;
  options.keep_checkpoints = 0;
  (void)train(run.base, run.data, options);
  const std::string want = read_text(options.out / "model.safetensors");
  {
    std::fstream file(options.out / "checkpoint-3" / "training.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-9, std::ios::end);
    file.put('\x55');
  }
  fs::resize_file(options.out / "checkpoint-2" / "model.safetensors", 1000);
  std::vector<std::string> said;
  options.notice = [&](std::string_view text) { said.emplace_back(text); };
  options.resume = true;
  (void)train(run.base, run.data, options);
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-3 is damaged and passed over")));
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-2 is damaged and passed over")));
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-1")));
  EXPECT_TRUE(read_text(options.out / "model.safetensors") == want);
}

TEST(Run, RefusesToResumeWithOtherSettingsOrData) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 2;
  options.save_every = 1;
  (void)train(run.base, run.data, options);
  const Error used = error_of([&] { (void)train(run.base, run.data, options); });
  EXPECT_EQ(used.code(), Code::usage);
  EXPECT_THAT(used.what(), testing::HasSubstr("already holds a run"));
  options.resume = true;
  TrainOptions other = options;
  other.recipe.stages[0].lr = {.value = 1e-3};
  const Error changed = error_of([&] { (void)train(run.base, run.data, other); });
  EXPECT_EQ(changed.code(), Code::usage);
  EXPECT_THAT(changed.what(), testing::HasSubstr("recipe.stages.0.lr: the checkpoint has 2e-05, this run 0.001"));
  TrainingData data = run.data;
  data.train.info.data = std::string(64, 'f');
  EXPECT_THAT(error_of([&] { (void)train(run.base, data, options); }).what(),
              testing::HasSubstr("data: the checkpoint has"));
}

TEST(Run, StopsAtALossThatIsNoNumberAndNamesTheRows) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee", true);
  TrainingData data = run.data;
  TrainOptions options = run.options(scratch.path() / "out");
  options.recipe = parse_recipe(find_recipe("pabee"), "pabee");
  options.recipe.stages[0].batch = 8;
  options.max_steps = 12;  // all batches
  options.save_every = 1;
  data.train.gold[17] = INFINITY;
  const Error error = error_of([&] { (void)train(run.base, data, options); });
  EXPECT_EQ(error.code(), Code::failure);
  EXPECT_THAT(error.what(), testing::HasSubstr("the loss is inf at step"));
  EXPECT_THAT(error.what(), testing::ContainsRegex("rows .*\\b17\\b"));
  EXPECT_FALSE(fs::exists(options.out / "model.safetensors"));
}

TEST(Run, EndsAStageThatNoLongerImprovesAndKeepsItsBestWeights) {
  const Scratch scratch(quick_parent());
  const SmallRun run("elasticbert-static");
  TrainOptions options = run.options(scratch.path() / "out");
  StageSpec& stage = options.recipe.stages[0];
  stage.lr = {.value = 0};  // nothing changes, so nothing improves
  stage.eval_every = 1;
  stage.early_stop = 3;
  options.max_steps = 50;
  EXPECT_EQ(train(run.base, run.data, options).steps, 4);
}

TEST(Run, ReplacesAnEarlierRunButNoFilesOfOthers) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 2;
  options.save_every = 1;
  (void)train(run.base, run.data, options);
  std::ofstream(options.out / "mine.txt") << "kept";
  options.overwrite = true;
  options.max_steps = 1;
  (void)train(run.base, run.data, options);
  EXPECT_FALSE(fs::exists(options.out / "checkpoint-2"));
  EXPECT_TRUE(fs::exists(options.out / "checkpoint-1"));
  EXPECT_EQ(read_text(options.out / "mine.txt"), "kept");
  EXPECT_NO_THROW((void)Checkpoint::open(options.out.string(), {.verify = true}));
}

TEST(Run, RefusesMoreAccumulationThanAnEpochHasBatches) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.accumulation = 1000;
  const Error error = error_of([&] { (void)train(run.base, run.data, options); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), testing::HasSubstr("fewer than the 1000 that one step gathers"));
}

TEST(FirstLayers, AreAModelOfTheirOwn) {
  const SmallRun run("elasticbert-static");
  const Checkpoint two = first_layers(run.base, 2);
  EXPECT_EQ(two.spec().layers, 2);
  EXPECT_EQ(two.find("layer.2.query.weight"), nullptr);
  EXPECT_NE(two.find("layer.1.query.weight"), nullptr);
  EXPECT_THAT(error_of([&] { (void)first_layers(run.base, 4); }).what(), testing::HasSubstr("want 1 to 3"));
}

}  // namespace
}  // namespace exeunt
