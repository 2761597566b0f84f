// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/adamw.h"

#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/train/stage_plan.h"

namespace exeunt::nn {
namespace {

using torch::Tensor;

// The formulas of adamw.h on one number in double.
double by_hand(AdamKind kind, double p, const std::vector<double>& gradients, double rate, double decay) {
  double m = 0, v = 0, t = 0;
  for (const double g : gradients) {
    t += 1;
    m = .9 * m + .1 * g;
    v = .999 * v + .001 * g * g;
    const double first = 1 - std::pow(.9, t), second = 1 - std::pow(.999, t);
    if (kind == AdamKind::hf) {
      p -= rate * std::sqrt(second) / first * m / (std::sqrt(v) + 1e-8);
      p -= rate * decay * p;
    } else {
      p -= rate * decay * p;
      p -= rate * (m / first) / (std::sqrt(v / second) + 1e-8);
    }
  }
  return p;
}

TEST(AdamW, FollowsBothFormulasWhereGradientsAreTinyToo) {
  for (const AdamKind kind : {AdamKind::hf, AdamKind::torch}) {
    for (const double size : {1.0, 1e-7}) {  // at 1e-7 ε matters, and the two differ
      const std::vector<double> gradients{size, -2 * size, size / 2};
      const Tensor parameter = torch::tensor({1.0}, torch::kDouble);
      AdamW adam({{.name = "p", .parameter = parameter, .rate = .1, .decay = .01}}, {.kind = kind});
      for (const double gradient : gradients) {
        parameter.mutable_grad() = torch::tensor({gradient}, torch::kDouble);
        adam.step(1.0);
      }
      EXPECT_NEAR(parameter.item<double>(), by_hand(kind, 1, gradients, .1, .01), 1e-12);
    }
  }
  EXPECT_GT(std::abs(by_hand(AdamKind::hf, 1, {1e-7}, .1, 0) - by_hand(AdamKind::torch, 1, {1e-7}, .1, 0)), 1e-3);
}

TEST(AdamW, PassesOverParametersWithoutAGradient) {
  const Tensor parameter = torch::ones({2});
  AdamW adam({{.name = "p", .parameter = parameter, .rate = .1, .decay = .5}}, {});
  adam.step(1.0);
  EXPECT_TRUE(torch::equal(parameter, torch::ones({2})));
  EXPECT_FALSE(adam.slots()[0].m.defined());
  EXPECT_EQ(adam.slots()[0].t, 0);
}

TEST(AdamW, KeepsARateThatIsNotScheduled) {
  const Tensor scheduled = torch::ones({1}), constant = torch::ones({1});
  AdamW adam({{.name = "a", .parameter = scheduled, .rate = .1},
              {.name = "b", .parameter = constant, .rate = .1, .scheduled = false}},
             {});
  scheduled.mutable_grad() = torch::ones({1});
  constant.mutable_grad() = torch::ones({1});
  adam.step(0.0);
  EXPECT_EQ(scheduled.item<float>(), 1.F);
  EXPECT_LT(constant.item<float>(), .95F);
}

TEST(Schedule, RisesInALineAndFallsInALine) {
  const Schedule plain{.steps = 4};
  EXPECT_DOUBLE_EQ(plain.at(0), 1);
  EXPECT_DOUBLE_EQ(plain.at(1), .75);
  EXPECT_DOUBLE_EQ(plain.at(4), 0);
  EXPECT_DOUBLE_EQ(plain.at(9), 0);
  const Schedule warm{.steps = 10, .warmup = 2.5};  // a fraction of a step is allowed
  EXPECT_DOUBLE_EQ(warm.at(0), 0);
  EXPECT_DOUBLE_EQ(warm.at(2), 2 / 2.5);
  EXPECT_DOUBLE_EQ(warm.at(3), 7 / 7.5);
}

}  // namespace
}  // namespace exeunt::nn
