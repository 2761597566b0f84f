// SPDX-License-Identifier: Apache-2.0
// The network that trains against Hugging Face transformers' figures for every model under tests/fixtures/golden, and
// against the runtime's reference forward. All texts of a model go through it as one padded batch.
#include "exeunt/train/network.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "exeunt/base/safetensors.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/schema.h"
#include "tests/fixtures/scratch.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

constexpr float kTolerance = 1e-5F;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(EXEUNT_TEST_DATA "/golden")) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Network network_of(const Checkpoint& checkpoint) {
  Network network(checkpoint.spec(), checkpoint.exits());
  EXPECT_TRUE(load_parameters(*network, checkpoint).empty());
  network->eval();
  return network;
}

// Largest difference between a golden tensor and what the network says; both [texts, …].
float worst(const TensorSet& set, const std::string& name, const Tensor& got) {
  const TensorView& view = set.tensors.at(name);
  const Tensor want = torch::empty({view.elements()}, torch::kFloat);
  copy_to_float(view, {want.data_ptr<float>(), static_cast<size_t>(want.numel())});
  EXPECT_EQ(want.numel(), got.numel()) << name;
  const float difference = (want - got.detach().contiguous().view({-1})).abs().max().item<float>();
  return std::isnan(difference) ? INFINITY : difference;
}

class GoldenNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenNetwork, AgreesAfterEveryLayerAndAtEveryExitOfAPaddedBatch) {
  const torch::NoGradGuard no_grad;
  const std::string folder = std::string(EXEUNT_TEST_DATA "/golden/") + GetParam();
  Network network = network_of(Checkpoint::open(folder));
  const TensorSet set = read_safetensors(folder + "/golden.safetensors");
  const TextBatch batch = golden_batch(set, network->spec().pad_id);

  std::vector<Tensor> row0;
  for (const Tensor& rows : hidden_rows(network, batch)) row0.push_back(rows.select(1, 0));
  if (set.find("row0") != nullptr) {
    EXPECT_LE(worst(set, "row0", torch::stack(row0, 1)), kTolerance);
  }
  if (network->layout().sites.empty()) return;
  const ExitOutputs out = network(batch);
  EXPECT_LE(worst(set, "logits", torch::stack(out.logits, 1)), kTolerance);
  ASSERT_EQ(set.find("lte") != nullptr, !out.lte.empty());
  if (!out.lte.empty()) {
    EXPECT_LE(worst(set, "lte", torch::stack(out.lte, 1)), kTolerance);
  }
  ASSERT_EQ(set.find("ramp") != nullptr, out.ramp.defined());
  if (out.ramp.defined()) {
    EXPECT_LE(worst(set, "ramp", out.ramp), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenNetwork, ::testing::ValuesIn(golden_names()),
                         [](const auto& model) { return model.param; });

class EveryFamily : public ::testing::TestWithParam<Family> {};

TEST_P(EveryFamily, NamesItsParametersAsTheSchemaDoes) {
  const ModelSpec spec = small_spec(GetParam());
  ExitLayout layout = own_exits(spec);
  layout.lte = true;
  layout.inner = 5;
  for (size_t i = 0; i < 2; ++i) layout.sites[i].reader = static_cast<int>(i);
  const Network network(spec, layout);
  std::set<std::pair<std::string, std::vector<int64_t>>> have, want;
  for (const auto& item : network->named_parameters()) have.insert({item.key(), item.value().sizes().vec()});
  for (const TensorInfo& info : schema(spec, layout)) want.insert({info.name, info.shape});
  EXPECT_EQ(have, want);
}

TEST_P(EveryFamily, AnswersAsTheReferenceForwardDoes) {
  const torch::NoGradGuard no_grad;
  const ModelSpec spec = small_spec(GetParam());
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  Network network = network_of(checkpoint);
  const Reference reference(checkpoint);
  std::vector<Encoding> texts;
  for (const int length : {1, 9, 20}) texts.push_back(random_text(spec, length, static_cast<uint32_t>(length)));
  const Tensor got = torch::stack(network(batch_of(texts, spec.pad_id)).logits, 1).contiguous();
  for (size_t n = 0; n < texts.size(); ++n) {
    const std::vector<float> want = reference.trace(texts[n]).logits;
    const float* row = got.data_ptr<float>() + n * want.size();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(row[i], want[i], kTolerance) << "text " << n;
  }
}

TEST_P(EveryFamily, ComesBackFromACheckpointBitForBit) {
  const ModelSpec spec = small_spec(GetParam());
  Network network = network_of(make_model(spec, own_exits(spec)));
  const Scratch scratch;
  (void)write_exeunt_folder(to_checkpoint(*network), scratch.path() / "model");
  const Network again = network_of(Checkpoint::open((scratch.path() / "model").string()));
  for (const auto& item : network->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), again->named_parameters()[item.key()])) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryFamily,
                         ::testing::Values(Family::bert, Family::roberta, Family::albert, Family::elasticbert,
                                           Family::distilbert, Family::electra, Family::xlm_roberta, Family::camembert,
                                           Family::modernbert, Family::deberta_v2),
                         [](const auto& family) {
                           std::string name(name_of(family.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Network, RunsNoLayerAboveTheOneExitAskedFor) {
  const ModelSpec spec = small_spec();
  Network network = network_of(make_model(spec, own_exits(spec)));
  const TextBatch batch = batch_of({random_text(spec, 6)}, spec.pad_id);
  const ExitOutputs all = network->forward(batch), one = network->forward(batch, {.only = 1});
  EXPECT_TRUE(torch::equal(all.logits[1], one.logits[1]));
  EXPECT_FALSE(one.logits[0].defined());
  EXPECT_FALSE(one.logits[2].defined());
}

TEST(Network, LeavesParametersThatACheckpointLacksAsTheyAre) {
  const ModelSpec spec = small_spec();
  const Checkpoint backbone = make_model(spec, ExitLayout{});
  Network network(spec, own_exits(spec));
  const Tensor before = network->named_parameters()["exits.pooler.1.weight"].clone();
  const std::vector<std::string> missing = load_parameters(*network, backbone);
  EXPECT_EQ(missing.size(), 12U);  // three poolers and three classifiers, weight and bias
  EXPECT_TRUE(std::all_of(missing.begin(), missing.end(), [](const auto& name) { return name.find("exits.") == 0; }));
  EXPECT_TRUE(torch::equal(before, network->named_parameters()["exits.pooler.1.weight"]));
}

}  // namespace
}  // namespace exeunt::nn
