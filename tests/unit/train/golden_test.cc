// SPDX-License-Identifier: Apache-2.0
// Every recipe against scripts/golden/training.py, plain PyTorch in double precision: loss and gradients at step 0,
// the losses of ten batches, and every weight after the last step. Ours is fp32, hence the tolerances.
#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/base/safetensors.h"
#include "exeunt/model/family.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

constexpr double kLossTolerance = 2e-5, kGradientTolerance = 2e-5, kWeightTolerance = 5e-5;
const std::string kFolder = EXEUNT_TEST_DATA "/train/golden";

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

ModelSpec spec_of(const Json& json) {
  ModelSpec spec = row_of(*family_named(json.at("family").get<std::string>())).spec;
  const std::pair<const char*, int*> numbers[] = {{"layers", &spec.layers},
                                                  {"hidden", &spec.hidden},
                                                  {"heads", &spec.heads},
                                                  {"inner", &spec.inner},
                                                  {"vocab", &spec.vocab},
                                                  {"positions", &spec.positions},
                                                  {"segments", &spec.segments},
                                                  {"embedding", &spec.embedding},
                                                  {"groups", &spec.groups},
                                                  {"pad_id", &spec.pad_id},
                                                  {"position_offset", &spec.position_offset}};
  for (const auto& [name, value] : numbers) *value = json.at(name).get<int>();
  spec.norm_eps = json.at("norm_eps").get<float>();
  spec.activation = json.at("activation") == "gelu" ? Activation::gelu : Activation::gelu_new;
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  return spec;
}

class GoldenRecipe : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenRecipe()
      : set_(read_safetensors(kFolder + "/" + GetParam() + ".safetensors")),
        case_(parse_json(set_.metadata.at("case"), GetParam())) {
    Json json = recipe_json(find_recipe(case_.at("recipe")));
    json.merge_patch(case_.at("patch"));
    recipe_ = parse_recipe(json, GetParam());
    if (case_.at("anchor_last")) recipe_.gradient.anchor.value = Anchor::last;
    if (case_.contains("weight_decay")) recipe_.stages.front().weight_decay = case_.at("weight_decay");
    const ModelSpec spec = spec_of(case_.at("spec"));
    OutputSpec outcome;
    if (case_.at("regression")) {
      outcome.problem = Problem::regression;
    } else {
      for (int c = 0; c < case_.at("classes").get<int>(); ++c) outcome.labels.push_back(std::to_string(c));
    }
    network_ = Network(spec, layout_of(recipe_, spec, outcome));
    const torch::NoGradGuard no_grad;
    for (auto& item : network_->named_parameters()) item.value().copy_(golden("init." + item.key()));
  }

  Tensor golden(const std::string& name) const {
    const TensorView& view = set_.tensors.at(name);
    Tensor out = torch::empty(view.shape, torch::kFloat);
    copy_to_float(view, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
    return out;
  }

  // Batch `n` of the file: always as many texts.
  TrainBatch batch(size_t n, const torch::Device& device) const {
    const auto lengths = golden_values<int32_t>(set_, "lengths");
    const size_t rows = lengths.size() / 10;
    const TextBatch all = golden_batch(set_, network_->spec().pad_id);
    const auto from = static_cast<int64_t>(n * rows), count = static_cast<int64_t>(rows);
    const auto cut = [&](const Tensor& tensor) { return tensor.narrow(0, from, count).to(device); };
    const Tensor gold = cut(golden("gold"));
    return {{cut(all.ids), cut(all.types), cut(all.real)},
            case_.at("regression").get<bool>() ? gold : gold.to(torch::kLong)};
  }

  void expect_gradients(Stepper& stepper) const {
    stepper.combine_gradients();
    for (const auto& item : network_->named_parameters()) {
      const bool wanted = set_.find("gradient." + item.key()) != nullptr;
      ASSERT_EQ(item.value().grad().defined(), wanted) << item.key();
      if (!wanted) continue;
      const Tensor want = golden("gradient." + item.key());
      const double worst = (item.value().grad().cpu() - want).abs().max().item<double>();
      EXPECT_LE(worst, kGradientTolerance * std::max(1.0, want.abs().max().item<double>())) << item.key();
    }
  }

  // Trains from the file's first weights as its script did, and compares.
  void expect_golden(const torch::Device& device) {
    const Tensor losses = golden("losses");
    const int64_t steps = case_.at("steps"), accumulation = case_.at("accumulation");
    network_->to(device);
    size_t next = 0;
    int64_t step = 0;
    for (const StageSpec& stage : recipe_.stages) {
      if (step == losses.size(0)) break;  // the file has the stages that this recipe alone has
      const Schedule schedule{.steps = steps, .warmup = stage.warmup * static_cast<double>(steps)};
      Stepper stepper(network_, recipe_, stage,
                      {.lr = case_.at("lr"), .schedule = schedule, .recorded = accumulation == 1});
      for (int64_t number = 0; number < steps * accumulation;) {
        for (int64_t k = 0; k < accumulation; ++k) {
          (void)stepper.add(batch(next++, device), number++, 1.0 / static_cast<double>(accumulation));
        }
        if (step == 0) expect_gradients(stepper);
        const double want = losses[step++].item<double>();
        EXPECT_NEAR(stepper.step().loss, want, kLossTolerance * std::max(1.0, std::abs(want))) << "step " << step;
      }
      if (set_.find("final_weights") != nullptr) {
        const Tensor weights = stepper.objective().parameters().front().detach().cpu();
        EXPECT_LE((weights - golden("final_weights")).abs().max().item<double>(), 1e-4);
      }
    }
    EXPECT_EQ(step, losses.size(0));
    for (const auto& item : network_->named_parameters()) {
      // A key's bias shifts all scores of a row alike, so its true gradient is zero; Adam magnifies what rounding
      // leaves.
      if (item.key().ends_with("key.bias")) continue;
      const double worst = (item.value().detach().cpu() - golden("final." + item.key())).abs().max().item<double>();
      EXPECT_LE(worst, kWeightTolerance) << item.key();
    }
  }

  TensorSet set_;
  Json case_;
  Recipe recipe_;
  Network network_{nullptr};
};

TEST_P(GoldenRecipe, AgreesInLossesGradientsAndWeights) {
  expect_golden(torch::kCPU);
}

TEST_P(GoldenRecipe, AgreesOnAGpu) {
  if (compat::gpus() == 0) GTEST_SKIP() << "no GPU";
  expect_golden(torch::kCUDA);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenRecipe, ::testing::ValuesIn(case_names()),
                         [](const auto& name) { return name.param; });

// What a recipe is made of, as far as gradients can tell.
std::set<std::string> parts_of(const Recipe& recipe) {
  const OrderedJson json = recipe_json(recipe);
  std::set<std::string> parts{"gradient " + json["gradient"]["rule"].dump(), "exits " + json["exits"].dump()};
  for (const char* part : {"reader", "pooler", "classifier", "lte"}) parts.insert(part + json["heads"][part].dump());
  for (const StageSpec& stage : recipe.stages) {
    for (const ObjectiveSpec& objective :
         {ObjectiveSpec(stage.objective), stage.objective.few_pairs.value_or(stage.objective)})
      parts.insert(fmt::format("objective {} {}", word_of(objective.kind), word_of(objective.variant)));
    parts.insert(fmt::format("train {}", word_of(stage.train)));
  }
  return parts;
}

// A recipe whose every part has been compared with PyTorch needs no files of its own.
TEST(GoldenRecipes, CoverEveryPartOfEveryBundledRecipe) {
  std::set<std::string> covered;
  for (const std::string& name : case_names()) {
    const TensorSet set = read_safetensors(kFolder + "/" + name + ".safetensors");
    covered.merge(parts_of(find_recipe(parse_json(set.metadata.at("case"), name).at("recipe"))));
  }
  for (const std::string& name : recipe_names()) {
    for (const std::string& part : parts_of(find_recipe(name)))
      EXPECT_TRUE(covered.contains(part)) << name << ": " << part;
  }
}

}  // namespace
}  // namespace exeunt::nn
