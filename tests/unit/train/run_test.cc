// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/trace.h"
#include "exeunt/train/stage_plan.h"
#include "tests/unit/train/small_run.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// One run in a folder of its own.
struct Trial : SmallRun {
  explicit Trial(const std::string& name, bool regression = false)
      : SmallRun(name, regression), options(SmallRun::options(scratch.path() / "out")) {}
  [[nodiscard]] TrainResult train() const { return exeunt::train(base, data, options); }

  Scratch scratch{quick_parent()};
  TrainOptions options;
};

TEST(Run, LearnsAndLeavesHuggingFacesTreeBehind) {
  Trial run("exeunt");
  TrainOptions& options = run.options;
  options.recipe.stages.resize(1);
  options.max_steps = 60;
  options.save_every = 20;
  options.recipe.stages[0].lr = {.value = 3e-3};
  options.recipe.stages[0].head_lr = 1;
  const TrainResult result = run.train();
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

TEST(Run, WritesTheModelAsItIsCompleted) {
  Trial run("pabee");
  run.options.max_steps = 1;
  int calls = 0;
  run.options.complete = [&](const Checkpoint& trained, const TracedRows& train, const TracedRows& eval) {
    ++calls;
    EXPECT_EQ(train.rows.ids, run.data.train.ids);  // not more than kMostToComplete
    EXPECT_EQ(eval.rows.ids, run.data.eval.ids);
    EXPECT_EQ(train.trace.rows, train.rows.rows());
    EXPECT_EQ(eval.trace.exits, static_cast<int>(trained.exits().sites.size()));
    return trained.with_labels({"as", "completed"});
  };
  (void)run.train();
  EXPECT_EQ(calls, 1);
  const std::vector<std::string> labels{"as", "completed"};
  EXPECT_EQ(Checkpoint::open(run.options.out.string()).exits().labels, labels);
  run.options.trace = true;  // of the network, which traces must belong to
  run.options.overwrite = true;
  (void)run.train();
  EXPECT_EQ(calls, 1);
}

TEST(Run, RecordsEveryRowItLearnedInEveryCheckpoint) {
  Trial run("pabee");
  run.options.max_steps = 2;
  run.options.save_every = 1;
  (void)run.train();
  const Features& train = run.data.train;
  for (const char* folder : {"checkpoint-1", "checkpoint-2", ""}) {
    const fs::path out = run.options.out / folder;
    const LearnedRows learned = LearnedRows::read(out / kLearnedFile);
    EXPECT_EQ(learned.max_lengths(), std::vector<int64_t>{train.info.max_length}) << folder;
    for (size_t row = 0; row < train.rows(); ++row) EXPECT_EQ(learned.overlap(train.ids_of(row)), Overlap::equal);
    EXPECT_TRUE(read_json(out / "manifest.json")["files"].contains(kLearnedFile)) << folder;
    const Features unseen = small_features(run.base.spec(), 40, false, 9);
    int equal = 0;
    for (size_t row = 0; row < unseen.rows(); ++row) equal += learned.overlap(unseen.ids_of(row)) == Overlap::equal;
    EXPECT_LT(equal, 4);
  }
  EXPECT_EQ(read_json(run.options.out / "recipe.json").at("run").at("max_length"), train.info.max_length);
}

TEST(Run, KeepsLearnedRowsOfBaseModelWhenResumed) {
  Trial first("pabee"), second("pabee");
  first.options.max_steps = 1;
  (void)first.train();
  second.base = Checkpoint::open(first.options.out.string());
  second.data.train = small_features(first.base.spec(), 30, false, 9);
  second.options.max_steps = 2;
  second.options.save_every = 1;
  (void)second.train();
  const LearnedRows learned = LearnedRows::read(second.options.out / kLearnedFile);
  for (const Features* rows : {&first.data.train, &second.data.train}) {
    for (size_t row = 0; row < rows->rows(); ++row) EXPECT_EQ(learned.overlap(rows->ids_of(row)), Overlap::equal);
  }
  TrainOptions again = second.options;
  again.resume = true;
  again.out = second.scratch.path() / "resumed";
  fs::create_directories(again.out);
  fs::copy(second.options.out / "checkpoint-1", again.out / "checkpoint-1", fs::copy_options::recursive);
  (void)train(second.base, second.data, again);
  EXPECT_EQ(read_text(again.out / kLearnedFile), read_text(second.options.out / kLearnedFile));
}

// Train, export, run: at every exit the model on disk answers in the runtime as the network did in training.
double runtime_differs_by(Trial& run) {
  run.options.max_steps = 5;
  run.options.save_every = 0;
  run.options.trace = true;
  (void)run.train();
  const ExitTrace trained = read_trace(run.options.out / "trace-eval.safetensors");
  Engine engine(Checkpoint::open(run.options.out.string(), {.verify = true}),
                {.precision = Precision::fp32, .threads = 1});
  const Features& eval = run.data.eval;
  double worst = 0;
  for (size_t row = 0; row < eval.rows(); ++row) {
    Encoding text;
    text.ids.assign(eval.ids_of(row).begin(), eval.ids_of(row).end());
    text.types.assign(eval.types_of(row).begin(), eval.types_of(row).end());
    const Engine::FullPass pass = engine.full_pass(text);
    const auto width = static_cast<size_t>(trained.width);
    if (pass.logits.size() != static_cast<size_t>(trained.exits) * width) return INFINITY;
    for (size_t i = 0; i < pass.logits.size(); ++i) {
      const float want = trained.at(row, static_cast<int>(i / width))[i % width];
      worst = std::max(worst, std::abs(static_cast<double>(pass.logits[i]) - want));
    }
  }
  return worst;
}

TEST(Run, EngineMatchesTrainedNetwork) {
  for (const char* name : {"exeunt", "berxit", "elbert", "pabee"}) {
    Trial run(name);
    EXPECT_LT(runtime_differs_by(run), 1e-4) << name;
  }
}

TEST(Run, TracesNameWeightsTaskAndSplit) {
  Trial run("pabee");
  run.options.max_steps = 1;
  run.options.trace = true;
  run.data.eval.info.task = "SST-2";
  run.data.eval.info.split = "dev";
  for (size_t row = 0; row < run.data.eval.rows(); ++row) run.data.eval.index[row] = static_cast<int64_t>(2 * row);
  (void)run.train();
  const ExitTrace trace = read_trace(run.options.out / "trace-eval.safetensors");
  const Features& eval = run.data.eval;
  EXPECT_EQ(trace.info.weights, weights_sha256(Checkpoint::open(run.options.out.string())));
  EXPECT_EQ(trace.info.tokenizer, eval.info.tokenizer);
  EXPECT_EQ(trace.info.data, eval.info.data);
  EXPECT_EQ(trace.info.task, "SST-2");
  EXPECT_EQ(trace.info.split, "dev");
  EXPECT_EQ(trace.info.precision, "fp32");
  EXPECT_THAT(trace.info.engine, testing::StartsWith("torch "));
  EXPECT_EQ(trace.info.tool, version());
  EXPECT_FALSE(trace.info.created.empty());
  EXPECT_THAT(trace.info.labels, testing::ElementsAre("no", "yes"));
  EXPECT_THAT(trace.info.layers, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(trace.info.max_length, eval.info.max_length);
  EXPECT_EQ(trace.rows, eval.rows());
  EXPECT_EQ(trace.gold, eval.gold);
  EXPECT_EQ(trace.index, eval.index);
  for (size_t row = 0; row < eval.rows(); ++row) EXPECT_EQ(trace.lengths[row], static_cast<int32_t>(eval.length(row)));
}

// Every parameter of every family learns, and what comes out is that family's folder.
TEST(Run, TrainsEveryFamily) {
  for (const FamilyRow& row : families()) {
    for (const char* name : {"exeunt", "pabee"}) {  // with readers, and with the family's own head at every exit
      Trial run(name);
      run.base = make_model(small_spec(row.spec.family), ExitLayout{});
      EXPECT_LT(runtime_differs_by(run), 1e-4) << row.name << " by " << name;
      const Checkpoint made = Checkpoint::open(run.options.out.string());
      EXPECT_EQ(made.spec().family, row.spec.family);
      EXPECT_EQ(made.exits().pooler, row.pooler);
      for (const auto& [tensor, view] : run.base.tensors().tensors) {
        if (tensor.starts_with("pooler.") || made.find(tensor) == nullptr) continue;
        // A bias of keys alone shifts all scores of a query alike: its gradient is rounding.
        if (tensor.ends_with("key.bias")) continue;
        EXPECT_NE(to_floats(made.get(tensor)), to_floats(view)) << row.name << " by " << name << ": " << tensor;
      }
    }
  }
}

// What is said of the fit is about the stage that --epochs and --lr change.
TEST(Run, ReportsEpochsOfTheStageThatFlagsChange) {
  Trial run("attach");
  run.options.recipe.stages[0].epochs = {.value = 2};
  run.options.recipe.stages[1].epochs = {.value = 3};
  const OrderedJson results = run.train().results;
  EXPECT_EQ(results.at("epoch"), 2);
  EXPECT_EQ(results.at("train_epoch_losses").size(), 2U);
  run.options.recipe.stages[1].flags = true;
  run.options.overwrite = true;
  EXPECT_EQ(run.train().results.at("epoch"), 3);
}

TEST(Run, ReportsTrainingAccuracyOfClassesOnly) {
  Trial run("exeunt");
  run.options.max_steps = 4;
  run.data.eval = run.data.train;
  const OrderedJson results = run.train().results;
  EXPECT_EQ(results.at("train_accuracy"), results.at("eval_accuracy"));
  Trial numbers("exeunt", true);
  numbers.options.max_steps = 2;
  EXPECT_FALSE(numbers.train().results.contains("train_accuracy")) << "a number is not right or wrong";
}

TEST(Run, LeavesOutAStageForExitsThatAModelOfOneLayerDoesNotHave) {
  Trial run("attach");
  ModelSpec spec = run.base.spec();
  spec.layers = 1;
  run.base = make_model(spec, ExitLayout{});
  run.options.recipe.stages[0].epochs = {.value = 1};
  run.options.estimate = true;
  EXPECT_EQ(run.train().steps, 3) << "90 rows by 32, once";
  EXPECT_EQ(Checkpoint::open(run.options.out.string()).exits().sites.size(), 1U);
}

TEST(Run, LogsLearnedWeightsAndTheLossOfEveryEvaluation) {
  Trial run("elbert");
  run.options.max_steps = 4;
  run.options.recipe.stages[0].eval_every = 2;
  const OrderedJson results = run.train().results;
  EXPECT_EQ(results.at("loss_weights").size(), results.at("exits").size());
  EXPECT_GT(results.at("eval_loss").get<double>(), 0);
  const Json history = read_json(run.options.out / "trainer_state.json").at("log_history");
  int evaluations = 0;
  for (const Json& entry : history) {
    if (!entry.contains("eval_loss")) continue;
    ++evaluations;
    double sum = 0;
    for (const Json& weight : entry.at("loss_weights")) sum += weight.get<double>();
    EXPECT_NEAR(sum, static_cast<double>(results.at("exits").size()), 1e-5);
  }
  EXPECT_EQ(evaluations, 2);
}

TEST(Run, LogsThePartsOfRomebertsLoss) {
  Trial run("romebert");
  run.options.max_steps = 2;
  (void)run.train();
  const Json history = read_json(run.options.out / "trainer_state.json").at("log_history");
  const Json& first = history.at(0);
  EXPECT_NEAR(first.at("last_loss").get<double>() + first.at("multi_loss").get<double>(),
              first.at("loss").get<double>(), 1e-4);
  EXPECT_NEAR(first.at("norm_ratio").get<double>(),
              first.at("anchor_norm").get<double>() / first.at("secondary_norm").get<double>(), 1e-6);
}

TEST(Run, EvaluatesMoreSetsUnderTheirNames) {
  Trial run("pabee");
  run.options.max_steps = 2;
  run.options.trace = true;
  run.data.also.push_back({.name = "mm", .features = small_features(run.base.spec(), 20, false, 3)});
  const OrderedJson results = run.train().results;
  EXPECT_TRUE(results.contains("eval_accuracy_mm"));
  EXPECT_EQ(results.at("exits_mm").size(), results.at("exits").size());
  EXPECT_EQ(read_trace(run.options.out / "trace-mm.safetensors").rows, 20U);
  EXPECT_TRUE(read_json(run.options.out / "eval_results.json").contains("eval_accuracy_mm"));
}

TEST(Run, StartsARegressionAtTheMeanOfItsLabels) {
  Trial run("pabee", true);
  run.options.max_steps = 1;
  run.options.recipe.stages[0].lr = {.value = 0};
  (void)run.train();
  double sum = 0;
  for (const float value : run.data.train.gold) sum += value;
  const Checkpoint trained = Checkpoint::open(run.options.out.string());
  std::vector<float> bias(1);
  copy_to_float(*trained.find("exits.classifier.0.bias"), bias);
  EXPECT_NEAR(bias[0], sum / static_cast<double>(run.data.train.rows()), 1e-5);
}

class EveryRecipe : public ::testing::TestWithParam<std::string> {};

// The weights, the optimiser, the random numbers of dropout and the order of the data all come back.
TEST_P(EveryRecipe, ResumesBitForBitFromAnyStep) {
  Trial run(GetParam());
  TrainOptions& options = run.options;
  options.save_every = 1;
  options.keep_checkpoints = 0;
  options.max_steps = 12;
  options.accumulation = 2;
  for (StageSpec& stage : options.recipe.stages) {
    stage.eval_every = 3;
    stage.keep_best = KeepBest::mean;
    stage.early_stop.reset();
  }
  (void)run.train();
  const std::string want = read_text(options.out / "model.safetensors");
  const std::string want_log = read_text(options.out / "log.jsonl");
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>{}(GetParam())));
  const auto steps = static_cast<uint32_t>(12 * options.recipe.stages.size());
  TrainOptions again = options;
  again.resume = true;
  again.save_every = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string from = "checkpoint-" + std::to_string(1 + random() % (steps - 1));
    again.out = run.scratch.path() / ("resumed-" + std::to_string(i));
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

// Goes on in a folder that holds `from` of an earlier run, as after a crash. Returns the folder.
fs::path resumed(const Trial& run, const std::string& from) {
  TrainOptions again = run.options;
  again.out = run.scratch.path() / ("resumed-" + from);
  again.resume = true;
  fs::create_directories(again.out);
  fs::copy(run.options.out / from, again.out / from, fs::copy_options::recursive);
  (void)train(run.base, run.data, again);
  return again.out;
}

// The CPU's precision is fp32 whatever it says, a GPU's bf16; what is stored is what it was.
TEST(Run, KeepsThePrecisionThatTheDeviceGaveIt) {
  Trial run("pabee");
  run.options.max_steps = 1;
  EXPECT_EQ(run.options.precision, "auto");
  std::string precision;
  run.options.started = [&](const RunStart& start) { precision = start.precision; };
  (void)run.train();
  EXPECT_EQ(precision, "fp32");
  EXPECT_EQ(read_json(run.options.out / "run.json").at("precision"), "fp32");
}

// The order of additions and the random numbers of dropout come back, too.
TEST(Run, ResumesBitForBitOnAGpuIfAskedTo) {
  if (about_trainer().gpus == 0) GTEST_SKIP() << "needs a GPU";
  for (const char* recipe : {"pabee", "romebert", "exeunt"}) {
    Trial run(recipe);
    TrainOptions& options = run.options;
    options.device = "cuda";
    options.deterministic = true;
    options.max_steps = 12;
    options.save_every = 1;
    options.keep_checkpoints = 0;
    std::optional<double> cost;
    options.started = [&](const RunStart& start) { cost = start.deterministic_cost; };
    (void)run.train();
    ASSERT_TRUE(cost);
    EXPECT_GT(*cost, 0);
    const std::string want = read_text(options.out / "model.safetensors");
    for (const char* from : {"checkpoint-3", "checkpoint-8"}) {
      EXPECT_TRUE(read_text(resumed(run, from) / "model.safetensors") == want) << recipe << " " << from;
    }
  }
}

TEST(Run, ResumesWithTheTeacherThatAMovingAverageHasBecome) {
  Trial run("romebert-sd");
  TrainOptions& options = run.options;
  options.max_steps = 6;
  options.save_every = 1;
  options.keep_checkpoints = 0;
  StageSpec& stage = options.recipe.stages[0];
  stage.lr = {.value = 1e-3};
  stage.objective.variant = DistillVariant::ema;
  stage.objective.momentum = 0.75;
  (void)run.train();
  const std::string want = read_text(options.out / "model.safetensors");
  EXPECT_TRUE(read_text(resumed(run, "checkpoint-3") / "model.safetensors") == want);
}

TEST(Run, CountsEvaluationsWithoutABetterScoreAcrossAResume) {
  Trial run("elasticbert-static");
  TrainOptions& options = run.options;
  StageSpec& stage = options.recipe.stages[0];
  stage.lr = {.value = 0};  // nothing changes, so nothing improves
  stage.eval_every = 1;
  stage.early_stop = 3;
  options.max_steps = 50;
  options.save_every = 1;
  options.keep_checkpoints = 0;
  EXPECT_EQ(run.train().steps, 4);
  const fs::path out = resumed(run, "checkpoint-3");  // two of the three evaluations are behind it
  EXPECT_EQ(read_json(out / "trainer_state.json").at("global_step"), 4);
}

TEST(Run, SavesWhenStoppedAndResumes) {
  Trial run("pabee");
  TrainOptions& options = run.options;
  options.max_steps = 4;
  options.save_every = 0;
  std::atomic<bool> stop{true};
  options.stop = &stop;
  const TrainResult first = run.train();
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.steps, 1);
  EXPECT_TRUE(fs::exists(options.out / "checkpoint-1"));
  EXPECT_FALSE(fs::exists(options.out / "model.safetensors"));
  options.stop = nullptr;
  options.resume = true;
  EXPECT_EQ(run.train().steps, 4);
}

TEST(Run, ResumesFromOlderCheckpointIfNewestIsDamaged) {
  Trial run("pabee");
  TrainOptions& options = run.options;
  options.max_steps = 3;
  options.save_every = 1;
  options.keep_checkpoints = 0;
  (void)run.train();
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
  (void)run.train();
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-3 is damaged and skipped")));
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-2 is damaged and skipped")));
  EXPECT_THAT(said, testing::Contains(testing::HasSubstr("checkpoint-1")));
  EXPECT_TRUE(read_text(options.out / "model.safetensors") == want);
}

TEST(Run, RefusesToResumeWithOtherSettingsOrData) {
  Trial run("pabee");
  TrainOptions& options = run.options;
  options.max_steps = 2;
  options.save_every = 1;
  (void)run.train();
  const Error used = error_of([&] { (void)run.train(); });
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

TEST(Run, StopsAtNonFiniteLossAndNamesRows) {
  Trial run("pabee", true);
  TrainOptions& options = run.options;
  options.recipe.stages[0].batch = 8;
  options.max_steps = 12;  // all batches
  options.save_every = 1;
  run.data.train.gold[17] = INFINITY;
  const Error error = error_of([&] { (void)run.train(); });
  EXPECT_EQ(error.code(), Code::failure);
  EXPECT_THAT(error.what(), testing::HasSubstr("the loss is inf at step"));
  EXPECT_THAT(error.what(), testing::ContainsRegex("rows .*\\b17\\b"));
  EXPECT_FALSE(fs::exists(options.out / "model.safetensors"));
}

TEST(Run, EndsAStageThatNoLongerImprovesAndKeepsItsBestWeights) {
  Trial run("elasticbert-static");
  TrainOptions& options = run.options;
  StageSpec& stage = options.recipe.stages[0];
  stage.lr = {.value = 0};  // nothing changes, so nothing improves
  stage.eval_every = 1;
  stage.early_stop = 3;
  options.max_steps = 50;
  EXPECT_EQ(run.train().steps, 4);
}

TEST(Run, ReplacesAnEarlierRunButNoFilesOfOthers) {
  Trial run("pabee");
  TrainOptions& options = run.options;
  options.max_steps = 2;
  options.save_every = 1;
  (void)run.train();
  std::ofstream(options.out / "mine.txt") << "kept";
  options.overwrite = true;
  options.max_steps = 1;
  (void)run.train();
  EXPECT_FALSE(fs::exists(options.out / "checkpoint-2"));
  EXPECT_TRUE(fs::exists(options.out / "checkpoint-1"));
  EXPECT_EQ(read_text(options.out / "mine.txt"), "kept");
  EXPECT_NO_THROW((void)Checkpoint::open(options.out.string(), {.verify = true}));
}

TEST(Run, RefusesMoreAccumulationThanAnEpochHasBatches) {
  Trial run("pabee");
  TrainOptions& options = run.options;
  options.accumulation = 1000;
  const Error error = error_of([&] { (void)run.train(); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), testing::HasSubstr("fewer than the 1000 gradient accumulation steps"));
}

TEST(Schedule, WarmsUpAndDecaysToZero) {
  const Schedule schedule{.steps = 10, .warmup = 4};
  const double want[] = {0, .25, .5, .75, 1, 5. / 6, 4. / 6, .5, 2. / 6, 1. / 6, 0, 0};
  for (int64_t step = 0; step < 12; ++step) EXPECT_DOUBLE_EQ(schedule.at(step), want[step]) << step;
  EXPECT_DOUBLE_EQ((Schedule{.steps = 4, .warmup = .5}.at(0)), 0) << "a fraction of a step";
  EXPECT_DOUBLE_EQ((Schedule{.steps = 4, .warmup = .5}.at(1)), 3 / 3.5);
  EXPECT_DOUBLE_EQ(Schedule{}.at(0), 1) << "one step";
  EXPECT_DOUBLE_EQ(Schedule{}.at(1), 0);
}

TEST(StagePlan, CountsStepsTextsAndTheirCost) {
  Trial run("exeunt");
  TrainPlan plan = run.options;
  StageSpec& first = plan.recipe.stages[0];
  StageSpec& second = plan.recipe.stages[1];
  first.batch = second.batch = 8;
  first.epochs = {.value = 2.5};
  second.epochs = {.value = 4};
  first.lr = {.value = 3e-4};
  first.warmup = 0.1;
  plan.warmup_steps = -1;
  plan.accumulation = 2;
  const StagePlan stage = plan_stage(first, 90, plan);  // 12 batches, 6 steps an epoch
  EXPECT_EQ(stage.batches, 12);
  EXPECT_EQ(stage.steps, 15);
  EXPECT_DOUBLE_EQ(stage.lr, 3e-4);
  EXPECT_EQ(stage.schedule.steps, 15);
  EXPECT_DOUBLE_EQ(stage.schedule.warmup, 1.5);
  plan.whole_warmup = true;
  EXPECT_DOUBLE_EQ(plan_stage(first, 90, plan).schedule.warmup, 1);
  plan.warmup_steps = 3;
  EXPECT_DOUBLE_EQ(plan_stage(first, 90, plan).schedule.warmup, 3);
  plan.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(plan_stage(first, 90, plan).schedule.warmup, 0);
  EXPECT_EQ(plan_stage(first, 88, plan).batches, 11);
  Workload work = workload_of(90, plan);
  EXPECT_EQ(work.steps, 15 + 24);
  EXPECT_EQ(work.texts, (15 + 24) * 16);
  const bool frozen = second.train == Trainable::exits && plan.recipe.compat.frozen == Frozen::eval;
  EXPECT_TRUE(frozen) << "the second stage trains exits alone";
  EXPECT_DOUBLE_EQ(work.cost, 15 * 16 + 24 * 16 / 3.0);
  plan.max_steps = 5;
  EXPECT_EQ(workload_of(90, plan).steps, 10);
  first.epochs = {.value = 0};
  EXPECT_EQ(plan_stage(first, 90, plan).steps, 0) << "a stage that is left out has no steps";
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
