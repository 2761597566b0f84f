// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/objective.h"

#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/base/safetensors.h"
#include "exeunt/train/gradient.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

// Three exits, two texts, two classes; the expected figures are those published with the specification of the losses.
ExitOutputs worked_example() {
  ExitOutputs out;
  out.logits = {torch::tensor({{.2F, .1F}, {-.3F, .4F}}), torch::tensor({{1.F, -.5F}, {0.F, .8F}}),
                torch::tensor({{2.F, -1.F}, {.5F, 1.5F}})};
  return out;
}

const ObjectiveContext kThree{.layers = {1, 2, 3}};

Loss loss_of(const ObjectiveSpec& spec, int64_t batch = 0, const ObjectiveContext& context = kThree) {
  const ExitOutputs outputs = worked_example();
  return make_objective(spec, context)
      ->loss({.outputs = outputs, .gold = torch::tensor({0, 1}, torch::kLong), .batch = batch});
}

double total(const ObjectiveSpec& spec, int64_t batch = 0, const ObjectiveContext& context = kThree) {
  return loss_of(spec, batch, context).total().item<double>();
}

TEST(Objective, SumsLossesWithFixedWeights) {
  EXPECT_NEAR(total({.kind = ObjectiveKind::last}), .180925, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::early_sum}), .810048, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::sum}), .990973, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::linear}), .273180, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::limit, .layer = 1}), .523791, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::limit, .layer = 2}), .286257, 1e-6);
}

TEST(Objective, WeighsExitsByTheirLayers) {
  const double want = (1 * .523791 + 2 * .286257 + 6 * .180925) / 9;
  EXPECT_NEAR(total({.kind = ObjectiveKind::linear}, 0, {.layers = {1, 2, 6}}), want, 1e-6);
}

// Against LibTorch's own, exit by exit: alone, all together, and as the hard-label part of a distillation.
TEST(Objective, SmoothsTheLabelsOfEveryExit) {
  const double share = 0.2;
  std::vector<double> want;
  for (const Tensor& logits : worked_example().logits) {
    const Tensor loss =
        torch::cross_entropy_loss(logits, torch::tensor({0, 1}, torch::kLong), {}, at::Reduction::Mean, -100, share);
    want.push_back(loss.item<double>());
  }
  ObjectiveContext smooth = kThree;
  smooth.label_smoothing = share;
  EXPECT_NEAR(total({.kind = ObjectiveKind::last}, 0, smooth), want[2], 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::limit, .layer = 1}, 0, smooth), want[0], 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::sum}, 0, smooth), want[0] + want[1] + want[2], 1e-6);
  const ObjectiveSpec distill{.kind = ObjectiveKind::distill, .gamma = .9, .temperature = 3};
  const double imitation = total(distill) - .180925 - .1 * .810048;
  EXPECT_NEAR(total(distill, 0, smooth), want[2] + .1 * (want[0] + want[1]) + imitation, 2e-6);
  EXPECT_GT(std::abs(want[2] - .180925), 1e-2);
}

TEST(Objective, ReportsLossOfLastExitSeparately) {
  const Loss sum = loss_of({.kind = ObjectiveKind::sum});
  EXPECT_NEAR(sum.last.item<double>(), .180925, 1e-6);
  EXPECT_NEAR(sum.early.item<double>(), .810048, 1e-6);
  EXPECT_FALSE(loss_of({.kind = ObjectiveKind::early_sum}).last.defined());
  EXPECT_FALSE(loss_of({.kind = ObjectiveKind::last}).early.defined());
}

TEST(Objective, DistilsFromTheLastExitPerElement) {
  const Loss loss = loss_of({.kind = ObjectiveKind::distill, .gamma = .9, .temperature = 3});
  EXPECT_NEAR(loss.total().item<double>(), .528197, 1e-6);
  EXPECT_NEAR(loss.last.item<double>(), .180925, 1e-6);
  EXPECT_NEAR(loss.early.item<double>(), .081005 + .266267, 2e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::distill_early}), .081005 + .266267, 2e-6);
  ObjectiveContext batch = kThree;
  batch.kl = KlReduction::batch;  // twice the value per element of two classes
  EXPECT_NEAR(total({.kind = ObjectiveKind::distill_early}, 0, batch), .081005 + 2 * .266267, 3e-6);
}

TEST(Objective, TeacherGetsNoGradientFromStudents) {
  for (const DistillVariant variant : {DistillVariant::last, DistillVariant::chain, DistillVariant::berxit,
                                       DistillVariant::bidir, DistillVariant::group}) {
    ExitOutputs outputs = worked_example();
    for (Tensor& logits : outputs.logits) logits.requires_grad_();
    make_objective({.kind = ObjectiveKind::distill_early, .variant = variant}, kThree)
        ->loss({.outputs = outputs, .gold = torch::tensor({0, 1}, torch::kLong)})
        .total()
        .backward();
    const auto pull = [&](size_t exit) { return outputs.logits[exit].grad().abs().max().item<double>(); };
    EXPECT_GT(pull(0), 0) << static_cast<int>(variant);
    EXPECT_EQ(pull(2), 0) << static_cast<int>(variant);
  }
}

TEST(Objective, LearnsItsWeightsWithTheGradientOfTheClosedForm) {
  const ExitOutputs outputs = worked_example();
  const auto objective = make_objective({.kind = ObjectiveKind::learned}, kThree);
  const Tensor loss = objective->loss({.outputs = outputs, .gold = torch::tensor({0, 1}, torch::kLong)}).total();
  EXPECT_NEAR(loss.item<double>(), .982911, 1e-6);
  loss.backward();
  const Tensor gradient = objective->parameters().front().grad();
  EXPECT_NEAR(gradient[0].item<double>(), .00605596, 1e-8);
  EXPECT_NEAR(gradient[1].item<double>(), .00186046, 1e-8);
}

TEST(Objective, ReportsLearnedWeights) {
  const std::vector<double> learned = make_objective({.kind = ObjectiveKind::learned}, kThree)->learned_weights();
  ASSERT_EQ(learned.size(), 3U);
  EXPECT_NEAR(learned[0], .982014, 1e-6);
  EXPECT_NEAR(learned[1], .982014, 1e-6);
  EXPECT_NEAR(learned[2], 1.035972, 1e-6);
  EXPECT_TRUE(make_objective({.kind = ObjectiveKind::sum}, kThree)->learned_weights().empty());
}

TEST(Objective, KeepsLearnedWeightsAboveTheirFloor) {
  const double far_down = total({.kind = ObjectiveKind::learned, .init = -50, .floor = .25});
  EXPECT_NEAR(far_down, .25 * (.523791 + .286257) + 2.5 * .180925, 2e-6);
}

TEST(Objective, AlternatesBetweenBatches) {
  EXPECT_NEAR(total({.kind = ObjectiveKind::alternate}, 0), .180925, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::alternate}, 1), .990973, 1e-6);
  EXPECT_NEAR(total({.kind = ObjectiveKind::alternate}, 6), .180925, 1e-6);
}

TEST(Objective, AddsLossOfLearningToExitHead) {
  ObjectiveContext context = kThree;
  context.lte = true;
  ExitOutputs outputs = worked_example();
  outputs.logits[0] = torch::tensor({{.1F, .2F}, {-.3F, .4F}});  // the first text is wrong at the first exit
  outputs.lte = {torch::tensor({.5F, .5F}), torch::tensor({.25F, 0.F}), torch::tensor({0.F, 1.F})};
  const double m = (.25 + .25 + .0625 + 0 + 0 + 1) / 6;
  const Tensor gold = torch::tensor({0, 1}, torch::kLong);
  const auto objective = make_objective({.kind = ObjectiveKind::alternate}, context);
  const auto at = [&](int64_t batch) {
    return objective->loss({.outputs = outputs, .gold = gold, .batch = batch}).total().item<double>();
  };
  EXPECT_NEAR(at(0), .180925 + m, 1e-6);
  const double first = (std::log1p(std::exp(.1)) + std::log1p(std::exp(-.7))) / 2;
  EXPECT_NEAR(at(1), first + .286257 + m, 1e-6);  // the last exit's loss is left out
}

TEST(Objective, LearningToExitTargetIsAnyWrongLabel) {
  const ObjectiveContext context{.layers = {1, 2, 3}, .problem = Problem::multi_label, .lte = true};
  ExitOutputs outputs = worked_example();
  outputs.lte = {torch::tensor({.5F, .25F}), torch::tensor({.25F, 0.F}), torch::tensor({0.F, 1.F})};
  const Tensor gold = torch::tensor({{1.F, 0.F}, {0.F, 1.F}});
  // Yes above 0: the first text is right but at the first exit, the second one but at the last.
  const double wrong[3][2] = {{1, 0}, {0, 0}, {0, 1}}, doubt[3][2] = {{.5, .25}, {.25, 0}, {0, 1}};
  double m = 0;
  for (int exit = 0; exit < 3; ++exit)
    for (int text = 0; text < 2; ++text) m += std::pow(doubt[exit][text] - wrong[exit][text], 2) / 6;
  const auto total_of = [&](const ObjectiveContext& given) {
    return make_objective({.kind = ObjectiveKind::alternate}, given)
        ->loss({.outputs = outputs, .gold = gold})
        .total()
        .item<double>();
  };
  ObjectiveContext without = context;
  without.lte = false;
  EXPECT_NEAR(total_of(context) - total_of(without), m, 1e-6);
}

TEST(Objective, LearningToExitTargetIsDistanceOfValues) {
  ExitOutputs outputs;
  outputs.logits = {torch::tensor({{1.F}, {2.F}}), torch::tensor({{3.F}, {2.F}})};
  outputs.lte = {torch::tensor({.5F, .25F}), torch::tensor({1.F, 0.F})};
  const Tensor gold = torch::tensor({1.5F, 4.F});
  const double far[4] = {.5, 2, 1.5, 2}, doubt[4] = {.5, .25, 1, 0};
  double m = 0;
  for (int i = 0; i < 4; ++i) m += std::pow(doubt[i] - std::tanh(far[i]), 2) / 4;
  const auto total_of = [&](bool lte) {
    return make_objective({.kind = ObjectiveKind::sum}, {.layers = {1, 2}, .problem = Problem::regression, .lte = lte})
        ->loss({.outputs = outputs, .gold = gold})
        .total()
        .item<double>();
  };
  EXPECT_NEAR(total_of(true) - total_of(false), m, 1e-6);
}

// Against LibTorch's own, exit by exit, and the divergence of a distillation written out.
TEST(Objective, MultiLabelLossIsTheCrossEntropyOfEachYesAndNo) {
  const ObjectiveContext several{.layers = {1, 2, 3}, .problem = Problem::multi_label};
  const ExitOutputs outputs = worked_example();
  const Tensor gold = torch::tensor({{1.F, 0.F}, {1.F, 1.F}});
  const auto of = [&](const ObjectiveSpec& spec, const ObjectiveContext& context) {
    return make_objective(spec, context)->loss({.outputs = outputs, .gold = gold}).total().item<double>();
  };
  std::vector<double> want;
  for (const Tensor& logits : outputs.logits)
    want.push_back(torch::binary_cross_entropy_with_logits(logits, gold).item<double>());
  EXPECT_NEAR(of({.kind = ObjectiveKind::last}, several), want[2], 1e-6);
  EXPECT_NEAR(of({.kind = ObjectiveKind::sum}, several), want[0] + want[1] + want[2], 1e-6);
  ObjectiveContext smooth = several;
  smooth.label_smoothing = 0.2;
  EXPECT_NEAR(of({.kind = ObjectiveKind::last}, smooth),
              torch::binary_cross_entropy_with_logits(outputs.logits[2], gold * 0.8 + 0.1).item<double>(), 1e-6);

  double divergence = 0;
  const double t = 2, gamma = 0.5;
  for (size_t exit = 0; exit < 2; ++exit) {
    for (int64_t i = 0; i < 4; ++i) {
      const auto yes = [&](size_t e) { return 1 / (1 + std::exp(-outputs.logits[e].flatten()[i].item<double>() / t)); };
      const double p = yes(2), q = yes(exit);
      divergence += p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
    }
  }
  const ObjectiveSpec distill{.kind = ObjectiveKind::distill, .gamma = gamma, .temperature = t};
  EXPECT_NEAR(of(distill, several), want[2] + (1 - gamma) * (want[0] + want[1]) + gamma * t * t * divergence / 4, 1e-5);
}

// The golden model's loss of each text, as other software computed it from its logits.
TEST(Objective, MultiLabelLossIsThatOfTheGoldenModel) {
  const TensorSet set = read_safetensors(EXEUNT_TEST_DATA "/golden/hf_bert_multi_label/golden.safetensors");
  const auto values = [&](const char* name) {
    const TensorView& view = set.tensors.at(name);
    const Tensor out = torch::empty(view.shape, torch::kFloat);
    copy_to_float(view, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
    return out;
  };
  const Tensor logits = values("logits"), labels = values("labels"), loss = values("loss");
  const auto objective =
      make_objective({.kind = ObjectiveKind::last}, {.layers = {3}, .problem = Problem::multi_label});
  ASSERT_GE(loss.size(0), 8);
  for (int64_t n = 0; n < loss.size(0); ++n) {
    ExitOutputs outputs;
    outputs.logits = {logits[n].view({1, -1})};
    const Loss got = objective->loss({.outputs = outputs, .gold = labels[n].view({1, -1})});
    EXPECT_NEAR(got.total().item<double>(), loss[n].item<double>(), 1e-5) << n;
  }
}

TEST(Objective, RegressionLossIsTheSquaredError) {
  ExitOutputs outputs;
  outputs.logits = {torch::tensor({{1.F}, {2.F}}), torch::tensor({{3.F}, {2.F}})};
  const Tensor gold = torch::tensor({1.5F, 4.F});
  const ObjectiveContext context{.layers = {1, 2}, .problem = Problem::regression};
  const auto total_of = [&](const ObjectiveSpec& spec) {
    return make_objective(spec, context)->loss({.outputs = outputs, .gold = gold}).total().item<double>();
  };
  EXPECT_NEAR(total_of({.kind = ObjectiveKind::sum}), (.25 + 4) / 2 + (2.25 + 4) / 2, 1e-6);
  // (1−γ) ℓ_1 + γ mean (z_1 − z_2)², without a temperature.
  EXPECT_NEAR(total_of({.kind = ObjectiveKind::distill_early}), .1 * 2.125 + .9 * 2, 1e-6);
}

TEST(Objective, SaysWhichExitAloneItNeeds) {
  EXPECT_EQ(make_objective({.kind = ObjectiveKind::last}, kThree)->only(0), 2);
  EXPECT_EQ(make_objective({.kind = ObjectiveKind::limit, .layer = 2}, kThree)->only(0), 1);
  EXPECT_EQ(make_objective({.kind = ObjectiveKind::sum}, kThree)->only(0), std::nullopt);
  EXPECT_EQ(make_objective({.kind = ObjectiveKind::alternate}, kThree)->only(2), 2);
  EXPECT_EQ(make_objective({.kind = ObjectiveKind::alternate}, kThree)->only(3), std::nullopt);
}

TEST(Objective, RefusesALimitWithoutAnExitThere) {
  const Error error = error_of([] {
    (void)make_objective({.kind = ObjectiveKind::limit, .layer = 2}, ObjectiveContext{.layers = {1, 3}});
  });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_STREQ(error.what(), "objective 'limit': no exit after layer 2");
  EXPECT_EQ(error.hint(), "exits are after layers 1, 3");
}

TEST(Projection, RemovesOnlyWhatPointsAgainstTheAnchor) {
  const std::vector<Tensor> anchor{torch::tensor({1.F, 0.F})};
  std::vector<Tensor> other{torch::tensor({-1.F, 1.F})};
  const Tensor found = project_secondary(anchor, other);
  const ProjectionReport report =
      projection_report(found[0].item<double>(), found[1].item<double>(), found[2].item<double>());
  EXPECT_TRUE(torch::allclose(other[0], torch::tensor({0.F, 1.F})));
  EXPECT_NEAR(report.angle, 135, 1e-6);
  EXPECT_NEAR(report.secondary_norm, std::sqrt(2.0), 1e-6);
  std::vector<Tensor> friendly{torch::tensor({1.F, 1.F})};
  (void)project_secondary(anchor, friendly);
  EXPECT_TRUE(torch::allclose(friendly[0], torch::tensor({1.F, 1.F})));
}

TEST(Projection, UsesOneScalarForAllTensorsAndTakesAbsentOnesAsZero) {
  const std::vector<Tensor> anchor{torch::tensor({1.F}), torch::tensor({1.F}), Tensor()};
  std::vector<Tensor> other{torch::tensor({-2.F}), Tensor(), torch::tensor({5.F})};
  (void)project_secondary(anchor, other);  // ρ = −2 / 2
  EXPECT_NEAR(other[0].item<double>(), -1, 1e-6);
  EXPECT_NEAR(other[1].item<double>(), 1, 1e-6);
  EXPECT_NEAR(other[2].item<double>(), 5, 1e-6);
}

// The closed form: with equilibrium, layer i gets the gradient of every exit above it divided by L − i + 1, and heads
// get theirs unscaled.
TEST(Equilibrium, DividesEachLayersGradientByTheNumberOfExitsAboveIt) {
  ModelSpec spec = small_spec();
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const TextBatch batch = batch_of({random_text(spec, 5, 1), random_text(spec, 9, 2)}, spec.pad_id);
  const auto gradients = [&](bool equilibrium) {
    Network network(spec, own_exits(spec));
    (void)load_parameters(*network, checkpoint);
    network->train();
    const ExitOutputs out = network->forward(batch, {.equilibrium = equilibrium});
    torch::stack(out.logits).pow(2).sum().backward();
    return network;
  };
  const Network plain = gradients(false), balanced = gradients(true);
  const auto before = plain->named_parameters(), after = balanced->named_parameters();
  for (const auto& item : before) {
    const std::string& name = item.key();
    double divisor = 3;  // embeddings, and the first layer: all three exits
    if (name.find("exits.") == 0) divisor = 1;
    if (name.find("layer.") == 0) divisor = 3 - (name[6] - '0');
    EXPECT_TRUE(torch::allclose(item.value().grad() / divisor, after[name].grad(), 1e-4, 1e-5)) << name;
  }
}

}  // namespace
}  // namespace exeunt::nn
