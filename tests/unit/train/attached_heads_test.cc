// SPDX-License-Identifier: Apache-2.0
// The gradients by which `exeunt attach` learns, against LibTorch's for the trainer's heads and its distillation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/attach/head.h"
#include "exeunt/attach/head_trainer.h"
#include "exeunt/attach/imitation.h"
#include "exeunt/base/half.h"
#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/recipes/recipe.h"
#include "exeunt/train/network.h"
#include "exeunt/train/objective.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

struct Shape {
  int outputs;
  std::optional<int> inner = {};
  bool regression = false;
};

class AttachedHeads : public testing::TestWithParam<Shape> {};

// Two exits read the same rows: the first learns from the second, as an attached exit does from the last.
TEST_P(AttachedHeads, HaveTheGradientsOfTheTrainer) {
  constexpr double kTemperature = 2;
  torch::manual_seed(3);
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, std::max(GetParam().outputs, 2));
  layout.outputs = GetParam().outputs;
  if (GetParam().regression) layout.labels.clear(), layout.problem = Problem::regression;
  layout.inner = GetParam().inner;
  layout.sites = {{.after = 1, .reader = 0, .pooler = 0, .classifier = 0},
                  {.after = spec.layers, .pooler = 1, .classifier = 1}};
  Heads heads(spec, layout);
  heads->eval();
  for (auto& item : heads->named_parameters()) item.value().data().normal_(0, 0.5);

  // Rows that bf16 holds exactly, of texts of different lengths, padded with noise.
  const std::vector<int> lengths{4, 1, 6, 3};
  const int64_t texts = 4, tokens = 6, hidden = spec.hidden;
  const Tensor rows = torch::randn({texts, tokens, hidden}).to(torch::kBFloat16).to(torch::kFloat);
  Tensor real = torch::zeros({texts, tokens}, torch::kBool);
  std::vector<std::vector<uint16_t>> values;
  std::vector<TextRows> given;
  for (int64_t i = 0; i < texts; ++i) {
    const int length = lengths[static_cast<size_t>(i)];
    real[i].narrow(0, 0, length).fill_(true);
    std::vector<uint16_t> bits;
    const float* from = rows.data_ptr<float>() + i * tokens * hidden;
    for (int64_t c = 0; c < length * hidden; ++c) bits.push_back(float_to_bf16(from[c]));
    values.push_back(std::move(bits));
    given.push_back({values.back().data(), length});
  }

  ExitOutputs outputs;
  for (const ExitSite& site : layout.sites) {
    outputs.logits.push_back(heads->forward(site, heads->input_of(site, rows, real)).logits);
  }
  const ObjectiveContext context{.layers = {1, spec.layers}, .problem = layout.problem, .kl = KlReduction::batch};
  const auto objective =
      make_objective({.kind = ObjectiveKind::distill_early, .gamma = 1, .temperature = kTemperature}, context);
  const Tensor gold = torch::zeros({texts}, GetParam().regression ? torch::kFloat : torch::kLong);
  const Tensor loss = objective->loss({.outputs = outputs, .gold = gold}).total();
  loss.backward();

  const HeadShape shape{
      .hidden = spec.hidden, .width = layout.width, .outputs = layout.outputs, .inner = layout.inner.value_or(0)};
  HeadArray weights(shape), gradient(shape);
  const auto names = std::map<HeadArray::Part, std::string>{{HeadArray::query, "reader.0.weight"},
                                                            {HeadArray::pooler, "pooler.0.weight"},
                                                            {HeadArray::pooler_bias, "pooler.0.bias"},
                                                            {HeadArray::classifier, "classifier.0.weight"},
                                                            {HeadArray::classifier_bias, "classifier.0.bias"},
                                                            {HeadArray::inner, "classifier.0.inner.weight"},
                                                            {HeadArray::inner_bias, "classifier.0.inner.bias"}};
  auto parameters = heads->named_parameters();
  for (const auto& [part, name] : names) {
    if (weights.part(part).empty()) continue;
    const Tensor flat = parameters[name].detach().contiguous().view(-1);
    ASSERT_EQ(static_cast<size_t>(flat.numel()), weights.part(part).size()) << name;
    std::copy_n(flat.data_ptr<float>(), flat.numel(), weights.part(part).begin());
  }
  const Tensor last = outputs.logits[1].detach().contiguous();
  const std::span<const float> teacher(last.data_ptr<float>(), static_cast<size_t>(last.numel()));
  HeadPass pass(shape, choose_kernels());
  const std::span<const float> logits = pass.forward(weights, given);
  const Tensor own = outputs.logits[0].detach().contiguous();
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], own.data_ptr<float>()[i], 1e-4);

  std::vector<float> logit_gradient(logits.size());
  if (GetParam().regression) {  // in the model's own unit here; attach learns in units of the spread
    for (size_t i = 0; i < logits.size(); ++i) logit_gradient[i] = 2 * (logits[i] - teacher[i]) / 4;
  } else {
    const Imitation targets(teacher, layout, kTemperature);
    const std::vector<size_t> all{0, 1, 2, 3};
    EXPECT_NEAR(targets.loss(all, logits, logit_gradient) / 4, loss.item<double>(), 1e-4);
  }
  pass.backward(weights, given, {}, logit_gradient, gradient);
  for (const auto& [part, name] : names) {
    if (weights.part(part).empty()) continue;
    const Tensor wanted = parameters[name].grad().contiguous().view(-1);
    for (size_t i = 0; i < gradient.part(part).size(); ++i) {
      EXPECT_NEAR(gradient.part(part)[i], wanted.data_ptr<float>()[i], 1e-4) << name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttachedHeads,
                         testing::Values(Shape{.outputs = 3}, Shape{.outputs = 2, .inner = 5},
                                         Shape{.outputs = 1, .regression = true}));

// The golden file that holds the recipe `attach` (golden_test.cc) holds the command as well: the same texts, first
// weights and settings, hence the same losses and weights, but for the rounding of rows to bf16.
TEST(AttachedHeads, LearnAsTheRecipeDoes) {
  const TensorSet set = read_safetensors(EXEUNT_TEST_DATA "/train/golden/attach_bert.safetensors");
  const Json facts = parse_json(set.metadata.at("case"), "attach_bert");
  const StageSpec stage = find_recipe("attach").stages[1];
  const HeadSettings settings{.rate = facts.at("lr"),
                              .warmup = stage.warmup,
                              .decay = stage.weight_decay,
                              .dropout = 0,
                              .temperature = stage.objective.temperature};
  const auto steps = facts.at("steps").get<int64_t>();
  ModelSpec spec = small_spec();
  const Json& sizes = facts.at("spec");
  for (const auto& [name, value] : std::map<std::string, int*>{{"layers", &spec.layers},
                                                               {"hidden", &spec.hidden},
                                                               {"heads", &spec.heads},
                                                               {"inner", &spec.inner},
                                                               {"vocab", &spec.vocab},
                                                               {"positions", &spec.positions},
                                                               {"segments", &spec.segments},
                                                               {"embedding", &spec.embedding}})
    *value = sizes.at(name).get<int>();
  spec.norm_eps = sizes.at("norm_eps").get<float>();
  const OutputSpec outcome{.problem = Problem::classification, .labels = {"0", "1", "2"}, .range = {}};
  Network network(spec, layout_of(find_recipe("attach"), spec, outcome));
  const auto golden = [&](const std::string& name) {
    const TensorView& view = set.tensors.at(name);
    Tensor out = torch::empty(view.shape, torch::kFloat);
    copy_to_float(view, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
    return out;
  };
  const torch::NoGradGuard no_grad;
  network->eval();
  for (auto& item : network->named_parameters()) item.value().copy_(golden("final." + item.key()));

  // Texts of the second stage: rows after every layer, and what the last exit says.
  const TextBatch all = golden_batch(set, spec.pad_id);
  const auto lengths = golden_values<int32_t>(set, "lengths");
  const size_t batch = lengths.size() / 10, first = batch * static_cast<size_t>(steps);
  const std::vector<Tensor> rows = hidden_rows(network, all);
  const Tensor teacher = network->forward(all).logits.back().contiguous();
  const Imitation targets({teacher.data_ptr<float>(), static_cast<size_t>(teacher.numel())}, network->layout(),
                          settings.temperature);
  const HeadShape shape{.hidden = spec.hidden, .width = spec.hidden, .outputs = 3};
  std::vector<double> losses(static_cast<size_t>(steps));
  for (int exit = 0; exit + 1 < spec.layers; ++exit) {
    const Tensor here = rows[static_cast<size_t>(exit) + 1].contiguous();
    std::vector<std::vector<uint16_t>> rounded;
    std::vector<TextRows> given;
    for (size_t text = 0; text < lengths.size(); ++text) {
      const float* from = here.data_ptr<float>() + static_cast<int64_t>(text) * here.size(1) * here.size(2);
      std::vector<uint16_t> bits;
      for (int64_t c = 0; c < lengths[text] * here.size(2); ++c) bits.push_back(float_to_bf16(from[c]));
      rounded.push_back(std::move(bits));
      given.push_back({rounded.back().data(), lengths[text]});
    }
    const std::pair<HeadArray::Part, const char*> parts[] = {{HeadArray::query, "reader.{}.weight"},
                                                             {HeadArray::pooler, "pooler.{}.weight"},
                                                             {HeadArray::pooler_bias, "pooler.{}.bias"},
                                                             {HeadArray::classifier, "classifier.{}.weight"},
                                                             {HeadArray::classifier_bias, "classifier.{}.bias"}};
    const auto name = [&](const char* form) { return "exits." + fmt::format(fmt::runtime(form), exit); };
    HeadArray weights(shape);
    for (const auto& [part, form] : parts) {
      const Tensor from = golden("init." + name(form)).view(-1);
      std::copy_n(from.data_ptr<float>(), from.numel(), weights.part(part).begin());
    }
    HeadTrainer trainer(shape, choose_kernels(), settings, exit, steps);
    trainer.begin_from(weights);
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<size_t> texts;
      for (size_t i = 0; i < batch; ++i) texts.push_back(first + static_cast<size_t>(step) * batch + i);
      const std::span<const TextRows> these = std::span(given).subspan(texts.front(), batch);
      losses[static_cast<size_t>(step)] += trainer.validate(targets, texts, these).loss / static_cast<double>(batch);
      trainer.step(targets, texts, these);
    }
    for (const auto& [part, form] : parts) {
      const Tensor before = golden("init." + name(form)).view(-1), after = golden("final." + name(form)).view(-1);
      const std::span<const float> values = trainer.weights().part(part);
      double apart = 0, moved = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double want = after.data_ptr<float>()[i], from = before.data_ptr<float>()[i];
        apart += (values[i] - want) * (values[i] - want);
        moved += (want - from) * (want - from);
      }
      EXPECT_LT(std::sqrt(apart / moved), 0.05) << name(form);
    }
  }
  for (size_t step = 0; step < losses.size(); ++step) {
    const double want = golden("losses")[static_cast<int64_t>(step) + steps].item<double>();
    EXPECT_NEAR(losses[step], want, 0.02 * want) << "step " << step;
  }
}

}  // namespace
}  // namespace exeunt::nn
