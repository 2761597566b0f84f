// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/names.h"

#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string torch(std::string_view name) {
  return common_name(name, NameStyle::torch).value_or("(dropped)");
}
std::string tensorflow(std::string_view name) {
  return common_name(name, NameStyle::tensorflow).value_or("(dropped)");
}

TEST(Names, StripsPrefixesAndOldSpellings) {
  EXPECT_EQ(torch("bert.pooler.dense.weight"), "pooler.dense.weight");
  EXPECT_EQ(torch("module.roberta.embeddings.LayerNorm.gamma"), "embeddings.LayerNorm.weight");
  EXPECT_EQ(torch("elasticbert.encoder.layer.3.output.LayerNorm.beta"), "encoder.layer.3.output.LayerNorm.bias");
  EXPECT_EQ(torch("classifier.bias"), "classifier.bias");
  EXPECT_EQ(torch("bert.bert.x"), "bert.x");
}

TEST(Names, DropsUnusedTensors) {
  for (const char* name : {"core.encoder.layer.0.output.dense.weight", "slow_bert.pooler.dense.bias",
                           "cls.predictions.bias", "bert.embeddings.position_ids", "embeddings.position_ids",
                           "roberta.embeddings.token_type_ids", "lm_head.dense.weight", "predictions.LayerNorm.bias",
                           "sop_classifier.classifier.weight", "qa_outputs.bias", "module.cls.predictions.bias"}) {
    EXPECT_EQ(torch(name), "(dropped)") << name;
  }
}

TEST(Names, ConvertsGoogleBertNames) {
  EXPECT_EQ(tensorflow("bert/embeddings/word_embeddings"), "embeddings.word_embeddings.weight");
  EXPECT_EQ(tensorflow("bert/embeddings/LayerNorm/gamma"), "embeddings.LayerNorm.weight");
  EXPECT_EQ(tensorflow("bert/encoder/layer_11/attention/self/query/kernel"),
            "encoder.layer.11.attention.self.query.weight");
  EXPECT_EQ(tensorflow("bert/encoder/layer_0/attention/output/LayerNorm/beta"),
            "encoder.layer.0.attention.output.LayerNorm.bias");
  EXPECT_EQ(tensorflow("bert/encoder/layer_0/intermediate/dense/bias"), "encoder.layer.0.intermediate.dense.bias");
  EXPECT_EQ(tensorflow("bert/pooler/dense/kernel"), "pooler.dense.weight");
  EXPECT_EQ(tensorflow("output_weights"), "classifier.weight");
  EXPECT_EQ(tensorflow("output_bias"), "classifier.bias");
}

TEST(Names, ConvertsGoogleAlbertNames) {
  const std::string group = "bert/encoder/transformer/group_0/inner_group_0/";
  const std::string layer = "encoder.albert_layer_groups.0.albert_layers.0.";
  EXPECT_EQ(tensorflow(group + "attention_1/self/key/kernel"), layer + "attention.key.weight");
  EXPECT_EQ(tensorflow(group + "attention_1/output/dense/bias"), layer + "attention.dense.bias");
  EXPECT_EQ(tensorflow(group + "LayerNorm/gamma"), layer + "attention.LayerNorm.weight");
  EXPECT_EQ(tensorflow(group + "LayerNorm_1/beta"), layer + "full_layer_layer_norm.bias");
  EXPECT_EQ(tensorflow(group + "ffn_1/intermediate/dense/kernel"), layer + "ffn.weight");
  EXPECT_EQ(tensorflow(group + "ffn_1/intermediate/output/dense/kernel"), layer + "ffn_output.weight");
  EXPECT_EQ(tensorflow("module/bert/encoder/embedding_hidden_mapping_in/kernel"),
            "encoder.embedding_hidden_mapping_in.weight");
}

TEST(Names, DropsGooglePretrainingHeads) {
  for (const char* name : {"cls/predictions/output_bias", "module/cls/seq_relationship/output_weights"}) {
    EXPECT_EQ(tensorflow(name), "(dropped)") << name;
  }
}

TEST(Names, TransposesKernelsWithoutCopy) {
  std::mt19937 random(1);
  TensorSet set;
  tiny::add_random(set, random, "bert/pooler/dense/kernel", {2, 3});
  tiny::add_random(set, random, "output_weights", {2, 3});
  const SourceTensors source = normalise_names(set, NameStyle::tensorflow, "x.index");
  const TensorView& kernel = source.find("pooler.dense.weight")->view;
  EXPECT_EQ(kernel.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(kernel.bytes.data(), set.find("bert/pooler/dense/kernel")->bytes.data());
  EXPECT_EQ(source.find("classifier.weight")->view.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(source.family, Family::bert);
}

TEST(Names, InferFamily) {
  const auto family_of = [](const std::string& name) {
    std::mt19937 random(1);
    TensorSet set;
    tiny::add_random(set, random, name, {2, 2});
    return normalise_names(set, NameStyle::torch, "x").family;
  };
  EXPECT_EQ(family_of("roberta.x"), Family::roberta);
  EXPECT_EQ(family_of("encoder.embedding_hidden_mapping_in.weight"), Family::albert);
  EXPECT_EQ(family_of("encoder.pooler.0.dense.weight"), Family::elasticbert);
  EXPECT_EQ(family_of("encoder.layer.0.output.dense.weight"), std::nullopt);
}

}  // namespace
}  // namespace exeunt
