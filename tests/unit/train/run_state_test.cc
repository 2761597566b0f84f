// SPDX-License-Identifier: Apache-2.0
// Checkpoints under attack: killed while they are written, and a disk that is full at any one system call.
#include "exeunt/train/run_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exeunt/model/locate.h"
#include "exeunt/train/new_heads.h"
#include "exeunt/train/run_files.h"
#include "tests/unit/train/batches.h"
#include "tests/unit/train/faults.h"
#include "tests/unit/train/small_run.h"

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
    save_state(out / ("checkpoint-" + std::to_string(step)), {to_checkpoint(*network), "{}", learned}, state, *stepper);
  }

  SmallRun run;
  LearnedRows learned = learned_rows(run.data.train, {});
  Network network{nullptr};
  std::unique_ptr<Stepper> stepper;
  RunState state;
};

TEST(RunState, RestoresOptimiserAndLearnedWeights) {
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

// Killed at every call that writes, renames or removes, one after the other: what is newest then is whole.
TEST(RunState, KeepsLoadableCheckpointIfKilledDuringSave) {
  for (const bool replacing : {false, true}) {
    const Scratch scratch(quick_parent());
    Saver saver;
    saver.save(scratch.path(), 1);
    int killed = 0;
    for (int call = 1; call < 1000; ++call) {
      fs::remove_all(scratch.path() / "checkpoint-2");
      if (replacing) saver.save(scratch.path(), 2);
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        kill_at_call(call);
        saver.save(scratch.path(), 2);
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      remove_partial(scratch.path());
      const LoadedState loaded = read_state(checkpoints_in(scratch.path()).back());  // throws if it is not whole
      EXPECT_GE(loaded.state.position.step, 1);
      if (WIFEXITED(status)) {
        EXPECT_EQ(loaded.state.position.step, 2);
        break;
      }
      ASSERT_EQ(WTERMSIG(status), SIGKILL) << "call " << call;
      ++killed;
    }
    EXPECT_GT(killed, 20);
    EXPECT_LT(killed, 999);
  }
}

TEST(RunState, KeepsLastCheckpointIfDiskIsFull) {
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
    EXPECT_NO_THROW((void)read_state(all.back())) << "call " << call;
    if (!thrown && seen < call) break;  // fewer calls than that: all have failed once
    failed += thrown;
    fs::remove_all(scratch.path() / "checkpoint-2");
  }
  EXPECT_GT(failed, 20);
}

TEST(RunState, NamesTheFirstDifferenceOfTwoConfigurations) {
  EXPECT_EQ(settings_difference(OrderedJson::parse(R"({"a":{"b":[1,2]}})"), OrderedJson::parse(R"({"a":{"b":[1,2]}})")),
            "");
  EXPECT_EQ(settings_difference(OrderedJson::parse(R"({"a":{"b":[1,2]}})"), OrderedJson::parse(R"({"a":{"b":[1,3]}})")),
            "a.b.1: the checkpoint has 2, this run 3");
  EXPECT_EQ(settings_difference(OrderedJson::parse(R"({"a":1})"), OrderedJson::parse(R"({"a":1,"c":"x"})")),
            "c: the checkpoint has nothing, this run \"x\"");
}

TEST(RunState, FillsSettingsOfOlderCheckpointsWithDefaults) {
  OrderedJson stored{{"accumulation", 2}, {"recipe", recipe_json(find_recipe("romebert"))}}, now = stored;
  now["window"] = 50;
  stored["recipe"]["stages"][0].erase("layer_lr");
  EXPECT_EQ(settings_difference(stored, now), "");
  now["window"] = 49;
  EXPECT_EQ(settings_difference(stored, now), "window: the checkpoint has 50, this run 49");
}

}  // namespace
}  // namespace exeunt::nn
