// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_names.h"

#include "exeunt/base/error.h"
#include "exeunt/model/import.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

std::string google(std::string_view name) {
  return torch_name(name).value_or("(dropped)");
}

TEST(TfNames, ConvertsGoogleBertNames) {
  EXPECT_EQ(google("bert/embeddings/word_embeddings"), "embeddings.word_embeddings.weight");
  EXPECT_EQ(google("bert/embeddings/LayerNorm/gamma"), "embeddings.LayerNorm.weight");
  EXPECT_EQ(google("bert/encoder/layer_11/attention/self/query/kernel"),
            "encoder.layer.11.attention.self.query.weight");
  EXPECT_EQ(google("bert/encoder/layer_0/attention/output/LayerNorm/beta"),
            "encoder.layer.0.attention.output.LayerNorm.bias");
  EXPECT_EQ(google("bert/encoder/layer_0/intermediate/dense/bias"), "encoder.layer.0.intermediate.dense.bias");
  EXPECT_EQ(google("bert/pooler/dense/kernel"), "pooler.dense.weight");
  EXPECT_EQ(google("output_weights"), "classifier.weight");
  EXPECT_EQ(google("output_bias"), "classifier.bias");
}

TEST(TfNames, ConvertsGoogleAlbertNames) {
  const std::string group = "bert/encoder/transformer/group_0/inner_group_0/";
  const std::string layer = "encoder.albert_layer_groups.0.albert_layers.0.";
  EXPECT_EQ(google(group + "attention_1/self/key/kernel"), layer + "attention.key.weight");
  EXPECT_EQ(google(group + "attention_1/output/dense/bias"), layer + "attention.dense.bias");
  EXPECT_EQ(google(group + "LayerNorm/gamma"), layer + "attention.LayerNorm.weight");
  EXPECT_EQ(google(group + "LayerNorm_1/beta"), layer + "full_layer_layer_norm.bias");
  EXPECT_EQ(google(group + "ffn_1/intermediate/dense/kernel"), layer + "ffn.weight");
  EXPECT_EQ(google(group + "ffn_1/intermediate/output/dense/kernel"), layer + "ffn_output.weight");
  EXPECT_EQ(google("module/bert/encoder/embedding_hidden_mapping_in/kernel"),
            "encoder.embedding_hidden_mapping_in.weight");
}

TEST(TfNames, DropsGooglePretrainingHeads) {
  for (const char* name : {"cls/predictions/output_bias", "module/cls/seq_relationship/output_weights"}) {
    EXPECT_EQ(google(name), "(dropped)") << name;
  }
}

TEST(TfNames, TransposesKernelsWithoutCopy) {
  std::mt19937 random(1);
  TensorSet set;
  tiny::add_random(set, random, "bert/pooler/dense/kernel", {2, 3});
  tiny::add_random(set, random, "output_weights", {2, 3});
  const TensorSet named = with_torch_names(set, "x.index");
  const TensorView& kernel = *named.find("bert.pooler.dense.weight");
  EXPECT_EQ(kernel.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(kernel.bytes.data(), set.find("bert/pooler/dense/kernel")->bytes.data());
  EXPECT_EQ(named.find("classifier.weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(normalise_names(named, "x.index").family, Family::bert);
  tiny::add_random(set, random, "module/bert/pooler/dense/kernel", {2, 3});
  EXPECT_THROW((void)with_torch_names(set, "x.index"), Error);
}

}  // namespace
}  // namespace exeunt
