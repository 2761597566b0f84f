// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/checkpoint.h"

#include <functional>

#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

Error complaint(const std::function<void(TensorSet&)>& spoil) {
  const ModelSpec spec = tiny::spec(Family::bert);
  const ExitLayout exits = tiny::own_heads(spec);
  TensorSet tensors = tiny::tensors(spec, exits);
  spoil(tensors);
  return error_of([&] { (void)Checkpoint(spec, exits, tensors, {.where = "model.safetensors"}); });
}

TEST(Checkpoint, AcceptsEveryFamilyAndLayout) {
  for (const FamilyRow& row : families()) {
    const Family family = row.spec.family;
    const ModelSpec spec = tiny::spec(family);
    for (const ExitLayout& exits : {ExitLayout{}, tiny::own_heads(spec), tiny::everything(spec)}) {
      const Checkpoint checkpoint(spec, exits, tiny::tensors(spec, exits, DType::bf16));
      EXPECT_EQ(checkpoint.get("embeddings.norm.weight").dtype, DType::bf16);
      EXPECT_EQ(checkpoint.find("exits.lte.weight") != nullptr, exits.lte);
      EXPECT_EQ(checkpoint.spec().family, family);
    }
  }
}

TEST(Checkpoint, ReportsAMissingTensorByName) {
  const Error error = complaint([](TensorSet& t) { t.tensors.erase("embeddings.norm.bias"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_STREQ(error.what(), "model.safetensors: tensor 'embeddings.norm.bias' is missing");
}

TEST(Checkpoint, MissingLayersErrorCountsLayersOfWeights) {
  const Error error = complaint([](TensorSet& t) {
    std::erase_if(t.tensors, [](const auto& entry) { return entry.first.starts_with("layer.3."); });
  });
  EXPECT_EQ(error.hint(), "the weights have 3 layers, the configuration says 4");
}

TEST(Checkpoint, ReportsAMisshapenTensorWithBothShapes) {
  const Error error = complaint([](TensorSet& t) { t.tensors["exits.pooler.1.weight"].shape = {4, 16}; });
  EXPECT_STREQ(error.what(), "model.safetensors: tensor 'exits.pooler.1.weight': got shape [4, 16], want [8, 8]");
}

TEST(Checkpoint, ShapeErrorSuggestsOtherModelSize) {
  ModelSpec base = tiny::spec(Family::bert, 1);
  base.hidden = base.embedding = 768;
  base.heads = 12;
  const TensorSet tensors = tiny::tensors(base, {});
  ModelSpec large = base;
  large.hidden = large.embedding = 1024;
  Error error = error_of([&] { (void)Checkpoint(large, {}, tensors); });
  EXPECT_EQ(error.hint(), "looks like a base-size file in a large-size folder");
  large.hidden = large.embedding = 1000;
  error = error_of([&] { (void)Checkpoint(large, {}, tensors); });
  EXPECT_EQ(error.hint(), "the weights have hidden size 768, the configuration says 1000");
}

TEST(Checkpoint, RejectsUnsupportedTypes) {
  const Error error = complaint([](TensorSet& t) { t.tensors["layer.0.key.bias"].dtype = DType::i32; });
  EXPECT_STREQ(error.what(), "model.safetensors: tensor 'layer.0.key.bias': got I32, want F32, F16 or BF16");
}

TEST(Checkpoint, RejectsUnknownTensor) {
  const Error error = complaint([](TensorSet& t) { t.tensors["layer.0.kye.bias"] = t.tensors["layer.0.key.bias"]; });
  EXPECT_THAT(error.what(), HasSubstr("tensor 'layer.0.kye.bias' is not part of the model"));
  EXPECT_EQ(error.hint(), "did you mean 'layer.0.key.bias'?");
}

TEST(Checkpoint, RejectsIncompletePooler) {
  const ModelSpec spec = tiny::spec(Family::bert);
  for (const char* half : {"pooler.weight", "pooler.bias"}) {
    TensorSet tensors = tiny::tensors(spec, {});
    tensors.tensors.erase(half);
    const Error error = error_of([&] { (void)Checkpoint(spec, {}, tensors); });
    EXPECT_THAT(error.what(), HasSubstr(std::string("its partner '") + half + "' is missing"));
  }
  TensorSet neither = tiny::tensors(spec, {});
  neither.tensors.erase("pooler.weight");
  neither.tensors.erase("pooler.bias");
  EXPECT_EQ(Checkpoint(spec, {}, neither).find("pooler.weight"), nullptr);
}

TEST(Checkpoint, ErrorsUseTensorNamesOfFile) {
  const ModelSpec spec = tiny::spec(Family::bert);
  TensorSet tensors = tiny::tensors(spec, {});
  tensors.tensors["embeddings.norm.weight"].shape = {7};
  const Origin origin{.names = {{"embeddings.norm.weight", "bert.embeddings.LayerNorm.gamma"}}};
  const Error error = error_of([&] { (void)Checkpoint(spec, {}, tensors, origin); });
  EXPECT_STREQ(
      error.what(),
      "checkpoint: tensor 'bert.embeddings.LayerNorm.gamma' (embeddings.norm.weight): got shape [7], want [8]");
}

}  // namespace
}  // namespace exeunt
