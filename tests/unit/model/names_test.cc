// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/import.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string torch(std::string_view name) {
  return common_name(name).value_or("(dropped)");
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

TEST(Names, InferFamily) {
  const auto family_of = [](const std::string& name) {
    std::mt19937 random(1);
    TensorSet set;
    tiny::add_random(set, random, name, {2, 2});
    return normalise_names(set, "x").family;
  };
  EXPECT_EQ(family_of("roberta.x"), Family::roberta);
  EXPECT_EQ(family_of("encoder.embedding_hidden_mapping_in.weight"), Family::albert);
  EXPECT_EQ(family_of("encoder.pooler.0.dense.weight"), Family::elasticbert);
  EXPECT_EQ(family_of("encoder.layer.0.output.dense.weight"), std::nullopt);
}

}  // namespace
}  // namespace exeunt
