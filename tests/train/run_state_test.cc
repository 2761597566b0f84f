// SPDX-License-Identifier: Apache-2.0
// Checkpoints under attack: killed while they are written, and a disk that is full at any one system call.
#include "exeunt/train/run_state.h"

#include <random>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exeunt/train/new_heads.h"
#include "tests/train/batches.h"
#include "tests/train/faults.h"
#include "tests/train/small_run.h"

namespace exeunt::nn {
namespace {

namespace fs = std::filesystem;

// A network one step into its training, and the state that goes with it.
struct Saver {
  Saver() : run("elbert") {
    torch::set_num_threads(1);
    const ExitLayout layout = layout_of(run.recipe, run.base.spec(), run.data.outcome);
    network = start_network(run.base, layout, HeadInit::normal, 1).network;
    stepper =
        std::make_unique<Stepper>(network, run.recipe, run.recipe.stages[0], StepperOptions{.schedule = {.steps = 9}});
    const Encoding text = random_text(run.base.spec(), 5);
    (void)stepper->add({batch_of({text}, 0), torch::tensor({1}, torch::kLong)}, 0, 1.0);
    (void)stepper->step();
    state.configuration = OrderedJson::object();
  }

  void save(const fs::path& out, int64_t step) {
    state.position.step = step;
    save_state(out / ("checkpoint-" + std::to_string(step)), {to_checkpoint(*network), "{}"}, state, *stepper);
  }

  SmallRun run;
  Network network{nullptr};
  std::unique_ptr<Stepper> stepper;
  RunState state;
};

TEST(RunState, ComesBackWithOptimiserAndLearnedWeights) {
  const Scratch scratch(quick_parent());
  Saver saver, other;
  saver.save(scratch.path(), 5);
  const LoadedState loaded = read_state(scratch.path() / "checkpoint-5");
  EXPECT_EQ(loaded.state.position.step, 5);
  Stepper& fresh = *other.stepper;
  for (AdamSlot& slot : fresh.adam().slots()) slot.m = slot.v = Tensor();
  restore(loaded, fresh);
  const auto& before = saver.stepper->adam().slots();
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(before[i].m.defined(), fresh.adam().slots()[i].m.defined()) << before[i].name;
    EXPECT_TRUE(!before[i].m.defined() || torch::equal(before[i].m, fresh.adam().slots()[i].m)) << before[i].name;
    EXPECT_EQ(before[i].t, fresh.adam().slots()[i].t);
  }
  EXPECT_TRUE(
      torch::equal(saver.stepper->objective().parameters()[0].grad(), fresh.objective().parameters()[0].grad()));
}

TEST(RunState, OfEveryKillDuringASaveLeavesANewestCheckpointThatLoads) {
  const Scratch scratch(quick_parent());
  Saver saver;
  saver.save(scratch.path(), 1);
  std::mt19937 random(7);
  int64_t step = 1;
  int killed_midway = 0;
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t next = step + 1;; ++next) saver.save(scratch.path(), next);
    }
    ::usleep(500 + random() % 12000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    for (const auto& entry : fs::directory_iterator(scratch.path())) {
      killed_midway += entry.path().filename().string().find(".partial-") != std::string::npos;
    }
    remove_partial(scratch.path());
    const std::vector<fs::path> all = checkpoints_in(scratch.path());
    ASSERT_FALSE(all.empty());
    const LoadedState loaded = read_state(all.front());  // throws if it is not whole
    ASSERT_GE(loaded.state.position.step, step);
    step = loaded.state.position.step;
    for (size_t i = 1; i < all.size(); ++i) fs::remove_all(all[i]);
  }
  EXPECT_GT(killed_midway, 100);  // the kills did hit saves
}

TEST(RunState, KeepsTheLastCheckpointWhereverTheDiskFillsUp) {
  const Scratch scratch(quick_parent());
  Saver saver;
  saver.save(scratch.path(), 1);
  int failed = 0;
  for (int call = 1; call < 1000; ++call) {
    fail_call(call);
    bool thrown = false;
    try {
      saver.save(scratch.path(), 2);
    } catch (const Error& error) {
      thrown = true;
      EXPECT_EQ(error.code(), Code::resources) << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr("No space left on device"));
    }
    const int seen = calls_seen();
    fail_call(0);
    const std::vector<fs::path> all = checkpoints_in(scratch.path());
    EXPECT_NO_THROW((void)read_state(all.front())) << "call " << call;
    if (!thrown && seen < call) break;  // fewer calls than that: all have failed once
    failed += thrown;
    fs::remove_all(scratch.path() / "checkpoint-2");
  }
  EXPECT_GT(failed, 20);
}

TEST(RunState, NamesTheFirstDifferenceOfTwoConfigurations) {
  EXPECT_EQ(first_difference(Json::parse(R"({"a":{"b":[1,2]}})"), Json::parse(R"({"a":{"b":[1,2]}})")), "");
  EXPECT_EQ(first_difference(Json::parse(R"({"a":{"b":[1,2]}})"), Json::parse(R"({"a":{"b":[1,3]}})")),
            "a.b.1: the checkpoint has 2, this run 3");
  EXPECT_EQ(first_difference(Json::parse(R"({"a":1})"), Json::parse(R"({"a":1,"c":"x"})")),
            "c: the checkpoint has nothing, this run \"x\"");
}

}  // namespace
}  // namespace exeunt::nn
