// SPDX-License-Identifier: Apache-2.0
// Steps on a GPU against the same steps on the CPU, and NCCL. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "exeunt/train/group.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"
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

// Six steps without dropout; the last one's report behind the others.
std::vector<StepReport> steps_of(const std::string& name, size_t stage, const torch::Device& device, bool bf16) {
  const Recipe recipe = find_recipe(name);
  ModelSpec spec = small_spec(Family::bert);
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  const ExitLayout layout =
      layout_of(recipe, spec, {.problem = Problem::classification, .labels = {"a", "b", "c"}, .range = {}});
  Network network(spec, layout);
  (void)load_parameters(*network, make_model(spec, layout));
  network->to(device);
  Stepper stepper(network, recipe, recipe.stages.at(stage),
                  {.lr = 1e-3, .schedule = {.steps = 100, .warmup = 4}, .bf16 = bf16});
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
  for (const auto& [name, stage] :
       {std::pair{"exeunt", 0}, {"romebert", 0}, {"berxit", 0}, {"deebert", 0}, {"plain", 0}, {"attach", 1}}) {
    const std::vector<StepReport> want = steps_of(name, static_cast<size_t>(stage), torch::kCPU, false);
    for (const bool bf16 : {false, true}) {
      const double share = bf16 ? 5e-2 : 2e-3;
      const std::vector<StepReport> got = steps_of(name, static_cast<size_t>(stage), torch::kCUDA, bf16);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(got[i].loss, want[i].loss, share * (0.2 + want[i].loss)) << name << " " << i << " " << bf16;
        EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm, share * (0.2 + want[i].gradient_norm))
            << name << " " << i << " " << bf16;
        EXPECT_DOUBLE_EQ(got[i].rate, want[i].rate);
      }
    }
  }
}

TEST_F(Gpu, RepeatsBitForBitWhereAskedTo) {
  const torch::Device device = compat::choose_device("cuda", 0);
  compat::repeat_bit_for_bit(device, true);
  const std::vector<StepReport> one = steps_of("exeunt", 0, device, true), two = steps_of("exeunt", 0, device, true);
  compat::repeat_bit_for_bit(device, false);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].loss, two[i].loss) << i;
    EXPECT_EQ(one[i].gradient_norm, two[i].gradient_norm) << i;
  }
}

TEST_F(Gpu, SumsOverNcclWithOneRank) {
  const auto group = join_over_nccl({.host = "127.0.0.1", .port = 29517, .rank = 0, .size = 1});
  Tensor there = torch::arange(5, torch::kFloat).cuda(), here = torch::arange(3, torch::kDouble);
  group->all_reduce(there);
  group->all_reduce(here);
  EXPECT_EQ(there.sum().item<float>(), 10);
  EXPECT_EQ(here.sum().item<double>(), 3);
}

}  // namespace
}  // namespace exeunt::nn
