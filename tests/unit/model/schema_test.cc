// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/schema.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

std::map<std::string, TensorInfo> by_name(const ModelSpec& spec, const ExitLayout& exits) {
  std::map<std::string, TensorInfo> map;
  for (TensorInfo& info : schema(spec, exits)) {
    const std::string name = info.name;
    EXPECT_TRUE(map.emplace(name, std::move(info)).second) << name << " appears twice";
  }
  return map;
}

TEST(Schema, NamesEveryTensorOfABertWithItsShape) {
  const auto map = by_name(tiny::spec(Family::bert), {});
  EXPECT_THAT(map.at("embeddings.word.weight").shape, ElementsAre(11, 8));
  EXPECT_THAT(map.at("embeddings.position.weight").shape, ElementsAre(10, 8));
  EXPECT_THAT(map.at("embeddings.segment.weight").shape, ElementsAre(2, 8));
  EXPECT_THAT(map.at("layer.3.ffn1.weight").shape, ElementsAre(12, 8));
  EXPECT_THAT(map.at("layer.3.ffn1.bias").shape, ElementsAre(12));
  EXPECT_THAT(map.at("layer.3.ffn2.weight").shape, ElementsAre(8, 12));
  EXPECT_THAT(map.at("layer.0.attention_norm.bias").shape, ElementsAre(8));
  EXPECT_THAT(map.at("layer.0.output.weight").aliases, ElementsAre("encoder.layer.0.attention.output.dense.weight"));
  EXPECT_FALSE(map.at("pooler.weight").required);
  EXPECT_EQ(map.size(), 5U + 4 * 16 + 2);
}

TEST(Schema, SharesALayersWeightsInAlbert) {
  const ModelSpec spec = tiny::spec(Family::albert);
  const auto map = by_name(spec, {});
  EXPECT_THAT(map.at("embeddings.word.weight").shape, ElementsAre(11, 4));
  EXPECT_THAT(map.at("embeddings.project.weight").shape, ElementsAre(8, 4));
  EXPECT_THAT(map.at("group.0.ffn_norm.weight").aliases,
              ElementsAre("encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight"));
  EXPECT_THAT(map.at("pooler.bias").aliases, ElementsAre("pooler.bias", "pooler.dense.bias"));
  EXPECT_EQ(map.size(), 7U + 16 + 2);
  EXPECT_EQ(layer_prefix(spec, 3), "group.0");
  ModelSpec two = spec;
  two.groups = 2;
  EXPECT_EQ(layer_prefix(two, 1), "group.0");
  EXPECT_EQ(layer_prefix(two, 2), "group.1");
  EXPECT_EQ(layer_prefix(tiny::spec(Family::bert), 2), "layer.2");
}

TEST(Schema, GivesElasticBertAPoolerPerLayer) {
  const auto map = by_name(tiny::spec(Family::elasticbert), {});
  EXPECT_THAT(map.at("pooler.2.weight").aliases, ElementsAre("encoder.pooler.2.dense.weight"));
  EXPECT_FALSE(map.at("pooler.2.weight").required);
}

TEST(Schema, ReplacesTheBackbonesPoolerByTheExits) {
  const ModelSpec spec = tiny::spec(Family::bert);
  const auto map = by_name(spec, tiny::own_heads(spec));
  EXPECT_FALSE(map.contains("pooler.weight"));
  EXPECT_THAT(map.at("exits.pooler.3.weight").shape, ElementsAre(8, 8));
  EXPECT_THAT(map.at("exits.pooler.3.weight").aliases,
              ElementsAre("encoder.exit_out_layers.3.pooler.weight", "pooler.dense.weight"));
  EXPECT_THAT(map.at("exits.pooler.1.bias").aliases, Contains("encoder.highway.1.pooler.dense.bias"));
  EXPECT_THAT(map.at("exits.classifier.3.weight").shape, ElementsAre(3, 8));
  EXPECT_THAT(map.at("exits.classifier.3.weight").aliases, Contains("classifier.weight"));
  EXPECT_THAT(map.at("exits.classifier.3.weight").aliases, Not(Contains("encoder.highway.3.classifier.weight")));
}

TEST(Schema, WidensPoolersBehindAReaderAndKnowsEveryPart) {
  const ModelSpec spec = tiny::spec(Family::bert);
  const auto map = by_name(spec, tiny::everything(spec));
  EXPECT_THAT(map.at("exits.reader.2.weight").shape, ElementsAre(8));
  EXPECT_FALSE(map.contains("exits.reader.3.weight"));
  EXPECT_THAT(map.at("exits.pooler.2.weight").shape, ElementsAre(6, 16));
  EXPECT_THAT(map.at("exits.pooler.3.weight").shape, ElementsAre(6, 8));
  EXPECT_THAT(map.at("exits.pooler.4.weight").aliases, ElementsAre("encoder.highway.3.pooler.dense.weight"));
  EXPECT_THAT(map.at("exits.classifier.0.weight").shape, ElementsAre(5, 6));
  EXPECT_THAT(map.at("exits.classifier.0.inner.weight").shape, ElementsAre(3, 5));
  EXPECT_THAT(map.at("exits.lte.weight").shape, ElementsAre(1, 6));
  EXPECT_THAT(map.at("exits.lte.bias").shape, ElementsAre(1));
}

TEST(Schema, AliasesAreUnique) {
  for (const FamilyRow& row : families()) {
    const Family family = row.spec.family;
    const ModelSpec spec = tiny::spec(family);
    for (const ExitLayout& exits : {ExitLayout{}, tiny::own_heads(spec), tiny::shared_pooler(spec),
                                    tiny::shared_head(spec), tiny::raw_heads(spec), tiny::everything(spec)}) {
      std::set<std::string> seen;
      for (const TensorInfo& info : schema(spec, exits)) {
        for (std::string alias : info.aliases) {
          if (info.of_rows > 0) alias += fmt::format(" from row {}", info.first_row);
          EXPECT_TRUE(seen.insert(alias).second) << alias << " in " << name_of(family);
        }
      }
    }
  }
}

TEST(Schema, HasExactlyTensorsOfFamily) {
  const auto names = [](const ModelSpec& spec, const ExitLayout& exits) {
    std::set<std::string> out;
    for (const TensorInfo& info : schema(spec, exits)) out.insert(info.name);
    return out;
  };
  const ModelSpec distil = tiny::spec(Family::distilbert), modern = tiny::spec(Family::modernbert),
                  deberta = tiny::spec(Family::deberta_v2);
  EXPECT_FALSE(names(distil, {}).contains("embeddings.segment.weight"));
  EXPECT_TRUE(names(distil, {}).contains("embeddings.position.weight"));
  EXPECT_FALSE(names(distil, {}).contains("pooler.weight"));

  const auto of_modern = names(modern, tiny::own_heads(modern));
  for (const char* name : {"layer.0.gate.weight", "final_norm.weight", "layer.1.attention_norm.weight",
                           "exits.pooler.3.norm.weight", "exits.classifier.3.bias"}) {
    EXPECT_TRUE(of_modern.contains(name)) << name;
  }
  for (const char* name : {"layer.0.attention_norm.weight", "layer.1.attention_norm.bias", "layer.0.query.bias",
                           "embeddings.position.weight", "embeddings.norm.bias", "exits.pooler.3.bias"}) {
    EXPECT_FALSE(of_modern.contains(name)) << name;
  }
  // Behind a reader, a pooler is the same in every family.
  const auto with_readers = names(modern, tiny::readers(modern));
  EXPECT_TRUE(with_readers.contains("exits.pooler.0.bias"));
  EXPECT_FALSE(with_readers.contains("exits.pooler.0.norm.weight"));

  const auto of_deberta = by_name(deberta, {});
  EXPECT_THAT(of_deberta.at("relative.weight").shape, ElementsAre(8, 8));
  EXPECT_TRUE(of_deberta.contains("relative.norm.bias"));
  EXPECT_FALSE(of_deberta.contains("embeddings.position.weight"));
}

TEST(Schema, CutsAFusedTensorIntoItsParts) {
  const ModelSpec spec = tiny::spec(Family::modernbert);
  const auto map = by_name(spec, {});
  int64_t row = 0;
  for (const char* part : {"query", "key", "value"}) {
    const TensorInfo& info = map.at(fmt::format("layer.1.{}.weight", part));
    EXPECT_EQ(info.first_row, row);
    EXPECT_EQ(info.of_rows, 24);
    EXPECT_THAT(info.aliases, ElementsAre("layers.1.attn.Wqkv.weight"));
    row += 8;
  }
  EXPECT_EQ(map.at("layer.1.gate.weight").first_row, 12);
  EXPECT_EQ(map.at("layer.1.output.weight").of_rows, 0);
}

}  // namespace
}  // namespace exeunt
