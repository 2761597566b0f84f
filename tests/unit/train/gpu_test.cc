// SPDX-License-Identifier: Apache-2.0
// Steps on a GPU against the same steps on the CPU, recorded steps against plain ones, and NCCL. Skipped where there is
// no GPU.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"
#include "exeunt/train/world.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (compat::gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

struct Case {
  std::string recipe;
  size_t stage = 0;
  Family family = Family::bert;
};
const std::vector<Case> kCases{{.recipe = "exeunt"},
                               {.recipe = "romebert"},
                               {.recipe = "berxit"},
                               {.recipe = "deebert"},
                               {.recipe = "plain"},
                               {.recipe = "attach", .stage = 1},
                               {.recipe = "exeunt", .family = Family::modernbert},
                               {.recipe = "exeunt", .family = Family::deberta_v2}};

// Six steps without dropout; the last one's report behind the others. On a GPU the first of a shape and phase is plain,
// the second one recorded, and the others are replayed.
std::vector<StepReport> steps_of(const Case& given, const torch::Device& device, bool bf16, bool recorded = true) {
  const Recipe recipe = find_recipe(given.recipe);
  ModelSpec spec = small_spec(given.family);
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  const ExitLayout layout =
      layout_of(recipe, spec, {.problem = Problem::classification, .labels = {"a", "b", "c"}, .range = {}});
  Network network(spec, layout);
  (void)load_parameters(*network, make_model(spec, layout));
  network->to(device);
  Stepper stepper(network, recipe, recipe.stages.at(given.stage),
                  {.lr = 1e-3, .schedule = {.steps = 100, .warmup = 4}, .bf16 = bf16, .recorded = recorded});
  const TextBatch texts =
      batch_of({random_text(spec, 8, 1), random_text(spec, 3, 2), random_text(spec, 5, 3)}, spec.pad_id);
  const TrainBatch batch{{texts.ids.to(device), texts.types.to(device), texts.real.to(device)},
                         torch::tensor({2, 0, 1}, torch::kLong).to(device)};
  std::vector<StepReport> out;
  for (int64_t number = 0; number < 6; ++number) {
    (void)stepper.add(batch, number, 1.0);
    out.push_back(stepper.step());
  }
  return out;
}

// They differ by the order of sums, and by bf16's rounding.
TEST_F(Gpu, TakesTheStepsOfTheCpu) {
  for (const Case& given : kCases) {
    const std::vector<StepReport> want = steps_of(given, torch::kCPU, false);
    for (const bool bf16 : {false, true}) {
      const double share = bf16 ? 5e-2 : 2e-3;
      const std::vector<StepReport> got = steps_of(given, torch::kCUDA, bf16);
      for (size_t i = 0; i < want.size(); ++i) {
        const auto where = [&] { return fmt::format("{} {} {} {}", given.recipe, int(given.family), i, bf16); };
        EXPECT_NEAR(got[i].loss, want[i].loss, share * (0.2 + want[i].loss)) << where();
        EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm, share * (0.2 + want[i].gradient_norm)) << where();
        EXPECT_DOUBLE_EQ(got[i].rate, want[i].rate);
      }
    }
  }
}

// Nothing but the order of sums differs.
TEST_F(Gpu, ReplaysThePlainSteps) {
  for (const Case& given : kCases) {
    for (const bool bf16 : {false, true}) {
      const std::vector<StepReport> want = steps_of(given, torch::kCUDA, bf16, false);
      const std::vector<StepReport> got = steps_of(given, torch::kCUDA, bf16, true);
      for (size_t i = 0; i < want.size(); ++i) {
        const auto near = [&](double a, double b) {
          EXPECT_NEAR(a, b, 1e-3 * (0.2 + std::fabs(b))) << given.recipe << " " << i << " " << bf16;
        };
        near(got[i].loss, want[i].loss);
        near(got[i].gradient_norm, want[i].gradient_norm);
        near(got[i].last_loss.value_or(0), want[i].last_loss.value_or(0));
        near(got[i].projection.anchor_norm, want[i].projection.anchor_norm);
        near(got[i].projection.secondary_norm, want[i].projection.secondary_norm);
      }
    }
  }
}

// Each shape is forgotten before it comes again.
TEST_F(Gpu, ForgetsTheOldestRecordings) {
  StepGraphs graphs;
  const auto shapes = static_cast<int64_t>(StepGraphs::kMost) + 8;
  int done = 0;
  const auto twice = [&](const StepGraphs::Tensors& in) -> StepGraphs::Tensors {
    ++done;
    return {in[0] * 2, Tensor()};
  };
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= shapes; ++n) {
      for (int value = 1; value <= 4; ++value) {
        const StepGraphs::Tensors out = graphs.run(0, {torch::full({n}, value, torch::kFloat).cuda()}, twice);
        EXPECT_EQ(out[0].sum().item<float>(), static_cast<float>(2 * value * n));
        EXPECT_FALSE(out[1].defined());
      }
    }
  }
  EXPECT_EQ(done, 2 * 2 * shapes);  // plain, recorded; not when replayed
}

TEST_F(Gpu, RepeatsBitForBitWhereAskedTo) {
  const torch::Device device = compat::choose_device("cuda", 0);
  compat::repeat_bit_for_bit(device, true);
  const std::vector<StepReport> one = steps_of(kCases[0], device, true);
  // A run that is resumed takes as plain steps what the other replayed.
  for (const bool recorded : {true, false}) {
    const std::vector<StepReport> two = steps_of(kCases[0], device, true, recorded);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].loss, two[i].loss) << i << " " << recorded;
      EXPECT_EQ(one[i].gradient_norm, two[i].gradient_norm) << i << " " << recorded;
    }
  }
  compat::repeat_bit_for_bit(device, false);
}

TEST_F(Gpu, SumsOverNcclWithOneRank) {
  const auto all_reduce = join_over_nccl({.host = "127.0.0.1", .port = 29517, .rank = 0, .size = 1});
  Tensor there = torch::arange(5, torch::kFloat).cuda(), here = torch::arange(3, torch::kDouble);
  all_reduce(there);
  all_reduce(here);
  EXPECT_EQ(there.sum().item<float>(), 10);
  EXPECT_EQ(here.sum().item<double>(), 3);
}

}  // namespace
}  // namespace exeunt::nn
