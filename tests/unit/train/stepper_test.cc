// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/stepper.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

ModelSpec still_spec() {
  ModelSpec spec = small_spec(Family::bert);
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  return spec;
}

struct Bench {
  explicit Bench(const std::string& name, const ModelSpec& spec = still_spec()) : recipe(find_recipe(name)) {
    const ExitLayout layout =
        layout_of(recipe, spec, {.problem = Problem::classification, .labels = {"a", "b", "c"}, .range = {}});
    network = Network(spec, layout);
    (void)load_parameters(*network, make_model(spec, layout));
    batch = {batch_of({random_text(spec, 6, 1), random_text(spec, 3, 2)}, spec.pad_id),
             torch::tensor({2, 0}, torch::kLong)};
  }

  Stepper stepper(size_t stage = 0, bool recorded = false) {
    return {network, recipe, recipe.stages[stage], {.lr = 1e-3, .schedule = {.steps = 10}, .recorded = recorded}};
  }

  // Names of the parameters that one step changes.
  std::set<std::string> changed_by(Stepper& stepper) {
    std::map<std::string, Tensor> before;
    for (const auto& item : network->named_parameters()) before[item.key()] = item.value().detach().clone();
    (void)stepper.add(batch, 0, 1.0);
    (void)stepper.step();
    std::set<std::string> names;
    for (const auto& item : network->named_parameters()) {
      if (!torch::equal(item.value(), before[item.key()])) names.insert(item.key());
    }
    return names;
  }

  Recipe recipe;
  Network network{nullptr};
  TrainBatch batch;
};

TEST(Stepper, TrainsBackboneAndLastExitInTheFirstStageOfDeebert) {
  Bench bench("deebert");
  Stepper stepper = bench.stepper(0);
  const std::set<std::string> names = bench.changed_by(stepper);
  EXPECT_TRUE(names.contains("layer.0.ffn1.weight"));
  EXPECT_TRUE(names.contains("embeddings.word.weight"));
  EXPECT_TRUE(names.contains("exits.classifier.2.weight"));
  EXPECT_FALSE(names.contains("exits.classifier.1.weight"));
  EXPECT_FALSE(names.contains("exits.pooler.0.bias"));
}

TEST(Stepper, TrainsOnlyTheExitsBeforeTheLastInItsSecond) {
  Bench bench("deebert");
  Stepper stepper = bench.stepper(1);
  for (const std::string& name : bench.changed_by(stepper)) {
    EXPECT_TRUE(name.find("exits.") == 0 && name.find(".2.") == std::string::npos) << name;
  }
  Bench again("deebert");
  Stepper second = again.stepper(1);
  EXPECT_EQ(again.changed_by(second).size(), 8U);  // two poolers and two classifiers, weight and bias
}

TEST(Stepper, CountsASharedHeadAsTheLastExits) {
  const ExitLayout shared = Bench("pabee").network->layout();
  EXPECT_FALSE(belongs_to_early_exits("exits.pooler.0.weight", shared));
  EXPECT_TRUE(belongs_to_early_exits("exits.classifier.0.weight", shared));
  EXPECT_FALSE(belongs_to_early_exits("exits.classifier.2.weight", shared));
  EXPECT_FALSE(belongs_to_early_exits("exits.lte.weight", shared));
  EXPECT_FALSE(belongs_to_early_exits("layer.0.query.weight", shared));
}

TEST(Stepper, LetsFrozenGradientsIntoTheClippedNormOnlyWhereAskedTo) {
  Bench all("deebert"), trainable("deebert");
  trainable.recipe.compat.clip_scope = ClipScope::trainable;
  Stepper wide = all.stepper(1), narrow = trainable.stepper(1);
  (void)wide.add(all.batch, 0, 1.0);
  (void)narrow.add(trainable.batch, 0, 1.0);
  EXPECT_FALSE(trainable.network->named_parameters()["layer.0.query.weight"].grad().defined());
  EXPECT_GT(wide.step().gradient_norm, 1.05 * narrow.step().gradient_norm);
}

// The loss of a frozen stage without dropout in the new exits: the same each time, whatever the frozen part's dropout,
// unless that is asked for as in DeeBERT's code.
TEST(Stepper, RunsFrozenPartWithoutDropoutAndGradients) {
  for (const Frozen mode : {Frozen::eval, Frozen::train}) {
    Bench bench("attach");
    ModelSpec spec = bench.network->spec();
    spec.hidden_dropout = spec.attention_dropout = 0.5F;
    const ExitLayout layout = bench.network->layout();
    bench.network = Network(spec, layout);
    (void)load_parameters(*bench.network, make_model(spec, layout));
    bench.recipe.compat.frozen = mode;
    Stepper stepper = bench.stepper(1);
    const double first = stepper.add(bench.batch, 0, 1.0);
    EXPECT_EQ(stepper.add(bench.batch, 1, 1.0) == first, mode == Frozen::eval);
    for (const auto& item : bench.network->named_parameters()) {
      EXPECT_EQ(item.value().grad().defined(), belongs_to_early_exits(item.key(), layout)) << item.key();
    }
  }
}

TEST(Stepper, DistilsFromLastExitWithoutDropout) {
  Bench bench("attach");
  ModelSpec spec = bench.network->spec();
  spec.classifier_dropout = 0.5F;
  const ExitLayout layout = bench.network->layout();
  Network network(spec, layout);
  (void)load_parameters(*network, make_model(spec, layout));
  const auto last = [&](bool frozen) {
    network->train();
    return network->forward(bench.batch.texts, {.frozen = frozen}).logits.back();
  };
  EXPECT_TRUE(torch::equal(last(true), last(true)));
  EXPECT_FALSE(torch::equal(last(false), last(false)));
  // Those that learn do drop pooled rows.
  network->train();
  const Tensor one = network->forward(bench.batch.texts, {.frozen = true}).logits.front();
  EXPECT_FALSE(torch::equal(one, network->forward(bench.batch.texts, {.frozen = true}).logits.front()));
}

TEST(Stepper, ClipsTheCommonNormOfAllGradients) {
  Bench bench("exeunt");
  bench.recipe.stages[0].clip = .25;
  Stepper stepper = bench.stepper();
  (void)stepper.add(bench.batch, 0, 1.0);
  const double norm = stepper.step().gradient_norm;
  ASSERT_GT(norm, .25);
  // The first moments after one step are a tenth of the clipped gradients.
  double sum = 0;
  for (const AdamSlot& slot : stepper.adam().slots()) sum += slot.m.pow(2).sum().item<double>();
  EXPECT_NEAR(std::sqrt(sum), .1 * .25, 1e-6);
}

TEST(Stepper, MultipliesTheRateOfHeadsAlone) {
  Bench bench("exeunt");
  Stepper stepper = bench.stepper();
  for (const AdamSlot& slot : stepper.adam().slots()) {
    EXPECT_DOUBLE_EQ(slot.rate, slot.name.find("exits.") == 0 ? 5e-3 : 1e-3) << slot.name;
  }
}

TEST(Stepper, LowersTheRateFromLayerToLayerDownToTheEmbeddings) {
  Bench bench("exeunt");
  bench.recipe.stages[0].layer_lr = .5;
  Stepper stepper = bench.stepper();
  std::map<std::string, double> rates;
  for (const AdamSlot& slot : stepper.adam().slots()) rates[slot.name] = slot.rate;
  const int layers = bench.network->spec().layers;
  ASSERT_GE(layers, 2);
  EXPECT_DOUBLE_EQ(rates.at(layer_prefix(bench.network->spec(), layers - 1) + ".query.weight"), 1e-3);
  EXPECT_DOUBLE_EQ(rates.at(layer_prefix(bench.network->spec(), layers - 2) + ".ffn1.bias"), .5e-3);
  EXPECT_DOUBLE_EQ(rates.at("embeddings.word.weight"), 1e-3 * std::pow(.5, layers));
  EXPECT_DOUBLE_EQ(rates.at("exits.pooler.0.weight"), 5e-3);
}

TEST(Stepper, DecaysNeitherBiasesNorNormsExceptAlbertsSecond) {
  EXPECT_TRUE(decays("layer.0.query.weight", row_of(Family::bert).spec));
  EXPECT_TRUE(decays("embeddings.word.weight", row_of(Family::bert).spec));
  EXPECT_FALSE(decays("layer.0.query.bias", row_of(Family::bert).spec));
  EXPECT_FALSE(decays("layer.0.ffn_norm.weight", row_of(Family::bert).spec));
  EXPECT_FALSE(decays("embeddings.norm.weight", row_of(Family::albert).spec));
  EXPECT_FALSE(decays("group.0.attention_norm.weight", row_of(Family::albert).spec));
  EXPECT_TRUE(decays("group.0.ffn_norm.weight", row_of(Family::albert).spec));
}

TEST(Stepper, AddsMicroBatchesUpToTheSameStep) {
  Bench whole("exeunt"), halves("exeunt");
  Stepper one = whole.stepper(), two = halves.stepper();
  (void)one.add(whole.batch, 0, 1.0);
  for (int64_t row = 0; row < 2; ++row) {
    const TextBatch& texts = halves.batch.texts;
    (void)two.add({{texts.ids.narrow(0, row, 1), texts.types.narrow(0, row, 1), texts.real.narrow(0, row, 1)},
                   halves.batch.gold.narrow(0, row, 1)},
                  row, 0.5);
  }
  const StepReport a = one.step(), b = two.step();
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4);
}

// Without a GPU nothing is replayed; what a step finds in a recording's place is the same.
TEST(Stepper, TakesTheSameStepsWhereTheyAreRecorded) {
  for (const auto& [name, rule] : {std::pair{"romebert", LearnedGradient::fresh},
                                   {"berxit", LearnedGradient::fresh},
                                   {"romebert-sd", LearnedGradient::fresh},
                                   {"elbert", LearnedGradient::fresh},
                                   {"elbert", LearnedGradient::accumulate}}) {
    Bench plain(name), recorded(name);
    plain.recipe.compat.dyn_grad = recorded.recipe.compat.dyn_grad = rule;
    Stepper one = plain.stepper(0, false), two = recorded.stepper(0, true);
    for (int64_t number = 0; number < 4; ++number) {
      EXPECT_EQ(one.add(plain.batch, number, 1.0), two.add(recorded.batch, number, 1.0)) << name;
      const StepReport want = one.step(), got = two.step();
      EXPECT_EQ(got.loss, want.loss) << name;
      EXPECT_EQ(got.last_loss, want.last_loss) << name;
      EXPECT_EQ(got.early_loss, want.early_loss) << name;
      EXPECT_EQ(got.gradient_norm, want.gradient_norm) << name;
      EXPECT_EQ(got.projection.angle, want.projection.angle) << name;
    }
    for (const auto& item : plain.network->named_parameters())
      EXPECT_TRUE(torch::equal(item.value(), recorded.network->named_parameters()[item.key()])) << item.key();
  }
}

TEST(Stepper, KeepsTheGradientOfLearnedWeightsOnlyWhereAskedTo) {
  for (const LearnedGradient rule : {LearnedGradient::accumulate, LearnedGradient::fresh}) {
    Bench bench("elbert");
    bench.recipe.compat.dyn_grad = rule;
    Stepper stepper = bench.stepper();
    (void)stepper.add(bench.batch, 0, 1.0);
    (void)stepper.step();
    EXPECT_EQ(stepper.objective().parameters().front().grad().defined(), rule == LearnedGradient::accumulate);
  }
}

// The last loss is the anchor here, and its gradient reaches every layer: the more layers the projection spans, the
// longer it is.
TEST(Stepper, LeavesTheLastLayerOutOfTheProjectionOrTheTwelfthAsTheOriginal) {
  const auto anchor_norm = [](int layers, ExcludeLast exclude) {
    ModelSpec spec = still_spec();
    spec.layers = layers;
    Bench bench("romebert", spec);
    bench.recipe.gradient.anchor.value = Anchor::last;
    bench.recipe.compat.gr_exclude_last = exclude;
    Stepper stepper = bench.stepper();
    (void)stepper.add(bench.batch, 0, 1.0);
    return stepper.step().projection.anchor_norm;
  };
  EXPECT_GT(anchor_norm(3, ExcludeLast::layer11), 1.001 * anchor_norm(3, ExcludeLast::generic));
  EXPECT_DOUBLE_EQ(anchor_norm(12, ExcludeLast::layer11), anchor_norm(12, ExcludeLast::generic));
  EXPECT_NE(anchor_norm(13, ExcludeLast::layer11), anchor_norm(13, ExcludeLast::generic));
}

TEST(Stepper, MovesItsSlowTeacherByTheMomentum) {
  Bench bench("romebert-sd");
  bench.recipe.stages[0].objective.variant = DistillVariant::ema;
  bench.recipe.stages[0].objective.momentum = 0.75;
  Stepper stepper = bench.stepper();
  const std::string name = "layer.1.ffn2.weight";
  const Tensor start = bench.network->named_parameters()[name].detach().clone();
  (void)stepper.add(bench.batch, 0, 1.0);  // the teacher is still the same network
  (void)stepper.step();
  const Tensor moved = bench.network->named_parameters()[name].detach().clone();
  (void)stepper.add(bench.batch, 1, 1.0);
  const Tensor taught = stepper.teacher()->named_parameters()[name];
  EXPECT_TRUE(torch::allclose(taught, 0.75 * start + 0.25 * moved));
  EXPECT_FALSE(torch::equal(start, moved));
}

}  // namespace
}  // namespace exeunt::nn
