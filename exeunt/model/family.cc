// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/family.h"

#include <array>

#include <fmt/format.h>

namespace exeunt {
namespace {

using std::string_view;

constexpr LayerNames kBertLayer{.before = "encoder.layer.",
                                .behind = ".",
                                .query = "attention.self.query",
                                .key = "attention.self.key",
                                .value = "attention.self.value",
                                .output = "attention.output.dense",
                                .attention_norm = "attention.output.LayerNorm",
                                .ffn1 = "intermediate.dense",
                                .ffn2 = "output.dense",
                                .ffn_norm = "output.LayerNorm"};
constexpr LayerNames kAlbertLayer{.before = "encoder.albert_layer_groups.",
                                  .behind = ".albert_layers.0.",
                                  .query = "attention.query",
                                  .key = "attention.key",
                                  .value = "attention.value",
                                  .output = "attention.dense",
                                  .attention_norm = "attention.LayerNorm",
                                  .ffn1 = "ffn",
                                  .ffn2 = "ffn_output",
                                  .ffn_norm = "full_layer_layer_norm"};

constexpr std::array<string_view, 1> kBertPooler{"pooler.dense"};
constexpr std::array<string_view, 2> kAlbertPoolers{"pooler", "pooler.dense"};  // transformers' name, Google's

constexpr std::array<string_view, 3> kAlbertFields{"num_hidden_groups", "inner_group_num", "embedding_size"};
constexpr std::array<string_view, 2> kElasticFields{"max_output_layers", "num_output_layers"};

constexpr ModelSpec kBertSpec{
    .family = Family::bert, .layers = 12, .hidden = 768, .heads = 12, .inner = 3072, .vocab = 30522, .embedding = 768};

constexpr ModelSpec roberta_spec() {
  ModelSpec spec = kBertSpec;
  spec.family = Family::roberta;
  spec.vocab = 50265;
  spec.pad_id = 1;
  spec.position_offset = 2;
  return spec;
}

constexpr ModelSpec albert_spec() {
  ModelSpec spec{.family = Family::albert, .layers = 12, .hidden = 4096, .heads = 64, .inner = 16384, .vocab = 30000};
  spec.embedding = 128;
  spec.embedding_projection = true;
  spec.groups = 1;
  spec.activation = Activation::gelu_new;
  spec.hidden_dropout = spec.attention_dropout = 0;
  spec.ffn_dropout = false;
  spec.ffn_norm_decays = true;
  return spec;
}

constexpr ModelSpec elasticbert_spec() {
  ModelSpec spec = kBertSpec;
  spec.family = Family::elasticbert;
  spec.layer_poolers = true;
  return spec;
}

// In the order of the enumeration.
constexpr std::array<FamilyRow, 4> kFamilies{{
    {.name = "bert",
     .class_name = "Bert",
     .spec = kBertSpec,
     .exported_as = Family::bert,
     .config_file = "bert_config.json",
     .layer = kBertLayer,
     .poolers = kBertPooler},
    {.name = "roberta",
     .class_name = "Roberta",
     .spec = roberta_spec(),
     .exported_as = Family::roberta,
     .layer = kBertLayer,
     .poolers = kBertPooler,
     .head_pooler = "classifier.dense",
     .head_classifier = "classifier.out_proj"},
    {.name = "albert",
     .class_name = "Albert",
     .spec = albert_spec(),
     .classifier_dropout = "classifier_dropout_prob",
     .classifier_dropout_absent = 0.1,
     .exported_as = Family::albert,
     .config_file = "albert_config.json",
     .telling_fields = kAlbertFields,
     .telling_tensor = "encoder.embedding_hidden_mapping_in.weight",
     .layer = kAlbertLayer,
     .embedding_projection = "encoder.embedding_hidden_mapping_in",
     .poolers = kAlbertPoolers},
    {.name = "elasticbert",
     .spec = elasticbert_spec(),
     .exported_as = Family::bert,
     .telling_fields = kElasticFields,
     .telling_tensor = "encoder.pooler.0.dense.weight",
     .layer = kBertLayer,
     .poolers = kBertPooler},
}};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kFamilies.size(); ++i) {
    if (kFamilies[i].spec.family != static_cast<Family>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

std::string LayerNames::of(int layer, std::string_view part) const {
  return fmt::format("{}{}{}{}", before, layer, behind, part);
}

std::span<const FamilyRow> families() noexcept {
  return kFamilies;
}

const FamilyRow& row_of(Family family) noexcept {
  return kFamilies[static_cast<size_t>(family)];
}

string_view name_of(Family family) noexcept {
  return row_of(family).name;
}

std::optional<Family> family_named(string_view name) noexcept {
  return find_family([&](const FamilyRow& row) { return row.name == name; });
}

}  // namespace exeunt
