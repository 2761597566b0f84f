// SPDX-License-Identifier: Apache-2.0
// Layers as one operation each against the same network built from LibTorch's own operations, and steps recorded on a
// GPU against steps launched one by one. What needs a GPU is skipped where there is none.
#include <gtest/gtest.h>

#include "exeunt/train/fused_layer.h"
#include "exeunt/train/group.h"
#include "exeunt/train/step_graphs.h"
#include "exeunt/train/torch_compat.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

struct Case {
  const char* recipe;
  Family family;
};

struct Pair {
  explicit Pair(const Case& which, bool wide = false) : recipe(find_recipe(which.recipe)) {
    spec = small_spec(which.family);
    spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
    if (wide) {  // what the kernels take
      spec.hidden = spec.embedding = 128;
      spec.heads = 4;
      spec.inner = 256;
    }
    const ExitLayout layout =
        layout_of(recipe, spec, {.problem = Problem::classification, .labels = {"a", "b", "c"}, .range = {}});
    network = Network(spec, layout);
    (void)load_parameters(*network, make_model(spec, layout));
    network->train();
    batch = batch_of({random_text(spec, 8, 1), random_text(spec, 3, 2), random_text(spec, 5, 3)}, spec.pad_id);
    gold = torch::tensor({2, 0, 1}, torch::kLong);
  }

  // Logits of all exits and the gradients of the sum of their losses.
  std::pair<Tensor, std::map<std::string, Tensor>> run(bool fused) {
    for (Tensor& parameter : network->parameters()) parameter.mutable_grad() = Tensor();
    const ExitOutputs out = network->forward(batch, {.equilibrium = true, .fused = fused});
    Tensor loss = torch::zeros({});
    for (const Tensor& logits : out.logits) loss = loss + torch::nll_loss(torch::log_softmax(logits, -1), gold);
    loss.backward();
    std::map<std::string, Tensor> gradients;
    for (const auto& item : network->named_parameters()) gradients[item.key()] = item.value().grad().clone();
    return {torch::stack(out.logits).detach(), gradients};
  }

  Recipe recipe;
  ModelSpec spec;
  Network network{nullptr};
  TextBatch batch;
  Tensor gold;
};

class Fused : public ::testing::TestWithParam<Case> {};

TEST_P(Fused, LayersGiveTheLogitsAndGradientsOfThePlainOnes) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.network->fits_fused(pair.batch.ids.size(1)));
  const auto [plain, plain_gradients] = pair.run(false);
  const auto [fused, fused_gradients] = pair.run(true);
  EXPECT_TRUE(torch::allclose(plain, fused, 1e-4, 1e-5)) << (plain - fused).abs().max();
  for (const auto& [name, gradient] : plain_gradients) {
    const Tensor& other = fused_gradients.at(name);
    EXPECT_TRUE(torch::allclose(gradient, other, 1e-3, 1e-5)) << name << " " << (gradient - other).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fused,
                         ::testing::Values(Case{"exeunt", Family::bert}, Case{"elasticbert", Family::roberta},
                                           Case{"pabee", Family::albert}, Case{"plain", Family::elasticbert}),
                         [](const auto& which) { return std::string(which.param.recipe); });

TEST(Fused, LeavesOtherPoolInputsToThePlainLayers) {
  Pair pair({"elbert", Family::bert});
  EXPECT_TRUE(pair.network->fits_fused(8));
  ExitLayout layout = pair.network->layout();
  layout.input = PoolInput::mean;
  EXPECT_FALSE(Network(pair.spec, layout)->fits_fused(8));
}

// Without dropout a recorded step differs from a launched one by bf16's rounding and the order of sums alone.
TEST(StepGraphs, TakeTheStepsOfTheStepper) {
  if (!compat::has_cuda() || !gpu::present()) GTEST_SKIP() << "no GPU";
  for (const auto& [name, stage] :
       {std::pair{"exeunt", 0}, {"romebert", 0}, {"berxit", 0}, {"deebert", 0}, {"plain", 0}, {"attach", 1}}) {
    Pair launched({name, Family::bert}, true), recorded({name, Family::bert}, true);
    const StepperOptions options{.lr = 1e-3, .schedule = {.steps = 100, .warmup = 4}, .bf16 = true};
    launched.network->to(torch::kCUDA);
    recorded.network->to(torch::kCUDA);
    Stepper one(launched.network, launched.recipe, launched.recipe.stages.at(stage), options);
    Stepper two(recorded.network, recorded.recipe, recorded.recipe.stages.at(stage), options);
    StepGraphs graphs(two);
    const TextBatch& texts = launched.batch;
    const TrainBatch there{{texts.ids.cuda(), texts.types.cuda(), texts.real.cuda()}, launched.gold.cuda()};
    for (int64_t number = 0; number < 6; ++number) {
      (void)one.add(there, number, 1.0);
      const StepReport want = one.step(), got = graphs.run({recorded.batch, recorded.gold}, number).report();
      EXPECT_NEAR(got.loss, want.loss, 5e-3 + 2e-2 * want.loss) << name << " " << number;
      EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 1e-2 + 5e-2 * want.gradient_norm) << name << " " << number;
      EXPECT_DOUBLE_EQ(got.rate, want.rate);
    }
    EXPECT_EQ(graphs.recordings(), std::string(name) == "berxit" ? 2U : 1U);
  }
}

TEST(Group, AddsUpOverNcclWithOneRank) {
  if (!compat::has_cuda() || !gpu::present()) GTEST_SKIP() << "no GPU";
  const auto group = join_over_nccl({.host = "127.0.0.1", .port = 29517, .rank = 0, .size = 1});
  Tensor there = torch::arange(5, torch::kFloat).cuda(), here = torch::arange(3, torch::kDouble);
  group->all_reduce(there);
  group->all_reduce(here);
  EXPECT_EQ(there.sum().item<float>(), 10);
  EXPECT_EQ(here.sum().item<double>(), 3);
}

}  // namespace
}  // namespace exeunt::nn
