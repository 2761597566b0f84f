// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/family.h"

#include <array>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

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

constexpr LayerNames kDistilBertLayer{.before = "transformer.layer.",
                                      .behind = ".",
                                      .query = "attention.q_lin",
                                      .key = "attention.k_lin",
                                      .value = "attention.v_lin",
                                      .output = "attention.out_lin",
                                      .attention_norm = "sa_layer_norm",
                                      .ffn1 = "ffn.lin1",
                                      .ffn2 = "ffn.lin2",
                                      .ffn_norm = "output_layer_norm"};
constexpr LayerNames kModernBertLayer{.before = "layers.",
                                      .behind = ".",
                                      .query = "attn.Wqkv",
                                      .key = "attn.Wqkv",
                                      .value = "attn.Wqkv",
                                      .output = "attn.Wo",
                                      .attention_norm = "attn_norm",
                                      .ffn1 = "mlp.Wi",
                                      .gate = "mlp.Wi",
                                      .ffn2 = "mlp.Wo",
                                      .ffn_norm = "mlp_norm"};
constexpr LayerNames deberta_layer() {
  LayerNames names = kBertLayer;
  names.query = "attention.self.query_proj";
  names.key = "attention.self.key_proj";
  names.value = "attention.self.value_proj";
  return names;
}
constexpr LayerNames kDebertaLayer = deberta_layer();

constexpr FieldNames kDistilBertFields{.hidden = "dim",
                                       .layers = "n_layers",
                                       .heads = "n_heads",
                                       .inner = "hidden_dim",
                                       .segments = {},
                                       .norm_eps = {},
                                       .activation = "activation",
                                       .hidden_dropout = "dropout",
                                       .attention_dropout = "attention_dropout",
                                       .classifier_dropout = "seq_classif_dropout"};
constexpr FieldNames kAlbertFieldNames{.classifier_dropout = "classifier_dropout_prob"};
// Its dropouts of embeddings and feed-forward halves are 0 in every released model.
constexpr FieldNames kModernBertFields{.segments = {},
                                       .norm_eps = "norm_eps",
                                       .activation = "hidden_activation",
                                       .hidden_dropout = "mlp_dropout",
                                       .attention_dropout = "attention_dropout"};
constexpr FieldNames kDebertaFields{.classifier_dropout = "cls_dropout"};

constexpr std::array<string_view, 1> kBertPooler{"pooler.dense"};
constexpr std::array<string_view, 2> kAlbertPoolers{"pooler", "pooler.dense"};  // transformers' name, Google's

constexpr HeadNames kRobertaHead{.pooler = "classifier.dense", .classifier = "classifier.out_proj"};

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

constexpr ModelSpec with_vocabulary(ModelSpec spec, Family family, int vocab) {
  spec.family = family;
  spec.vocab = vocab;
  return spec;
}

constexpr ModelSpec distilbert_spec() {
  ModelSpec spec = kBertSpec;
  spec.family = Family::distilbert;
  spec.layers = 6;
  spec.segments = 0;
  return spec;
}

constexpr ModelSpec electra_spec() {
  ModelSpec spec{.family = Family::electra, .layers = 12, .hidden = 256, .heads = 4, .inner = 1024, .vocab = 30522};
  spec.embedding = 128;
  spec.embedding_projection = true;
  return spec;
}

constexpr ModelSpec modernbert_spec() {
  ModelSpec spec{.family = Family::modernbert, .layers = 22, .hidden = 768, .heads = 12, .inner = 1152, .vocab = 50368};
  spec.embedding = 768;
  spec.positions = 8192;
  spec.position_table = false;
  spec.segments = 0;
  spec.pad_id = 50283;
  spec.norm_eps = 1e-5F;
  spec.biases = spec.norm_biases = false;
  spec.pre_norm = spec.gated = true;
  spec.rotary_base = 160000;
  spec.local_rotary_base = 10000;
  spec.window = 64;
  spec.global_every = 3;
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  return spec;
}

constexpr ModelSpec deberta_spec() {
  ModelSpec spec{.family = Family::deberta_v2, .layers = 24, .hidden = 1536, .heads = 24, .inner = 6144};
  spec.vocab = 128100;
  spec.embedding = 1536;
  spec.position_table = false;
  spec.segments = 0;
  spec.norm_eps = 1e-7F;
  spec.relative_buckets = 256;
  spec.relative_distance = 512;
  return spec;
}

constexpr ModelSpec elasticbert_spec() {
  ModelSpec spec = kBertSpec;
  spec.family = Family::elasticbert;
  spec.layer_poolers = true;
  return spec;
}

// In the order of the enumeration.
constexpr std::array<FamilyRow, 10> kFamilies{{
    {.name = "bert",
     .prefix = "bert",
     .class_name = "Bert",
     .spec = kBertSpec,
     .exported_as = Family::bert,
     .with_layer_poolers = Family::elasticbert,
     .config_file = "bert_config.json",
     .layer = kBertLayer,
     .poolers = kBertPooler},
    {.name = "roberta",
     .prefix = "roberta",
     .class_name = "Roberta",
     .spec = roberta_spec(),
     .exported_as = Family::roberta,
     .swaps_mnli_labels = true,
     .layer = kBertLayer,
     .poolers = kBertPooler,
     .head = kRobertaHead},
    {.name = "albert",
     .prefix = "albert",
     .class_name = "Albert",
     .spec = albert_spec(),
     .fields = kAlbertFieldNames,
     .classifier_dropout_absent = 0.1,
     .exported_as = Family::albert,
     .config_file = "albert_config.json",
     .telling_fields = kAlbertFields,
     .telling_tensor = "encoder.embedding_hidden_mapping_in.weight",
     .layer = kAlbertLayer,
     .embeddings = {.projection = "encoder.embedding_hidden_mapping_in"},
     .poolers = kAlbertPoolers},
    {.name = "elasticbert",
     .prefix = "elasticbert",
     .spec = elasticbert_spec(),
     .exported_as = Family::bert,
     .with_layer_poolers = Family::elasticbert,
     .telling_fields = kElasticFields,
     .telling_tensor = "encoder.pooler.0.dense.weight",
     .layer = kBertLayer,
     .poolers = kBertPooler},
    {.name = "distilbert",
     .prefix = "distilbert",
     .class_name = "DistilBert",
     .spec = distilbert_spec(),
     .fields = kDistilBertFields,
     .classifier_dropout_absent = 0.2,
     .exported_as = Family::distilbert,
     .layer = kDistilBertLayer,
     .head = {.pooler = "pre_classifier"},
     .pooler = {.activation = PoolerActivation::relu}},
    {.name = "electra",
     .prefix = "electra",
     .class_name = "Electra",
     .spec = electra_spec(),
     .exported_as = Family::electra,
     .layer = kBertLayer,
     .embeddings = {.projection = "embeddings_project", .projected_if_needed = true},
     .head = kRobertaHead,
     .pooler = {.activation = PoolerActivation::gelu}},
    {.name = "xlm-roberta",
     .prefix = "roberta",
     .class_name = "XLMRoberta",
     .spec = with_vocabulary(roberta_spec(), Family::xlm_roberta, 30522),
     .exported_as = Family::xlm_roberta,
     .layer = kBertLayer,
     .poolers = kBertPooler,
     .head = kRobertaHead},
    {.name = "camembert",
     .prefix = "roberta",
     .class_name = "Camembert",
     .spec = with_vocabulary(roberta_spec(), Family::camembert, 30522),
     .exported_as = Family::camembert,
     .layer = kBertLayer,
     .poolers = kBertPooler,
     .head = kRobertaHead},
    {.name = "modernbert",
     .prefix = "model",
     .class_name = "ModernBert",
     .spec = modernbert_spec(),
     .fields = kModernBertFields,
     .classifier_dropout_absent = 0.0,
     .exported_as = Family::modernbert,
     .layer = kModernBertLayer,
     .embeddings = {.word = "embeddings.tok_embeddings", .norm = "embeddings.norm"},
     .final_norm = "final_norm",
     .head = {.pooler = "head.dense", .norm = "head.norm"},
     .pooler = {.activation = PoolerActivation::gelu, .bias = false, .norm = true},
     .head_activation = "classifier_activation",
     .pools_mean = true},
    {.name = "deberta-v2",
     .prefix = "deberta",
     .class_name = "DebertaV2",
     .spec = deberta_spec(),
     .fields = kDebertaFields,
     .exported_as = Family::deberta_v2,
     .layer = kDebertaLayer,
     .embeddings = {.relative = "encoder.rel_embeddings", .relative_norm = "encoder.LayerNorm"},
     .head = {.pooler = "pooler.dense"},
     .pooler = {.activation = PoolerActivation::gelu},
     .head_activation = "pooler_hidden_act"},
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

namespace {

struct Size {
  int layers, hidden, heads, inner;
};

ModelSpec sized(Family family, Size size, int vocab) {
  ModelSpec spec = row_of(family).spec;
  spec.layers = size.layers;
  spec.hidden = size.hidden;
  spec.heads = size.heads;
  spec.inner = size.inner;
  spec.vocab = vocab;
  if (!spec.embedding_projection) spec.embedding = spec.hidden;
  return spec;
}

ModelSpec bert(Size size, int vocab) {
  return sized(Family::bert, size, vocab);
}

ModelSpec roberta(Family family, Size size, int vocab) {
  ModelSpec spec = sized(family, size, vocab);
  spec.positions = 514;
  spec.segments = 1;
  spec.norm_eps = 1e-5F;
  return spec;
}

// Version 1 has GELU by the error function, version 2 by tanh; the shapes are the same.
ModelSpec albert(Size size, Activation activation) {
  ModelSpec spec = sized(Family::albert, size, 30000);
  spec.activation = activation;
  return spec;
}

ModelSpec electra(Size size, int embedding) {
  ModelSpec spec = sized(Family::electra, size, 30522);
  spec.embedding = embedding;
  spec.embedding_projection = embedding != size.hidden;
  return spec;
}

ModelSpec deberta(Size size) {
  return sized(Family::deberta_v2, size, 128100);
}

std::vector<KnownShape> make_shapes() {
  constexpr Size kBase{12, 768, 12, 3072}, kLarge{24, 1024, 16, 4096}, kXlarge{24, 2048, 16, 8192},
      kXxlarge{12, 4096, 64, 16384};
  constexpr auto kV1 = Activation::gelu, kV2 = Activation::gelu_new;
  return {{"bert-base", bert(kBase, 30522)},
          {"bert-large", bert(kLarge, 30522)},
          {"bert-base-cased", bert(kBase, 28996)},
          {"bert-large-cased", bert(kLarge, 28996)},
          {"roberta-base", roberta(Family::roberta, kBase, 50265)},
          {"roberta-large", roberta(Family::roberta, kLarge, 50265)},
          {"albert-base-v1", albert(kBase, kV1)},
          {"albert-large-v1", albert(kLarge, kV1)},
          {"albert-xlarge-v1", albert(kXlarge, kV1)},
          {"albert-xxlarge-v1", albert(kXxlarge, kV1)},
          {"albert-base-v2", albert(kBase, kV2)},
          {"albert-large-v2", albert(kLarge, kV2)},
          {"albert-xlarge-v2", albert(kXlarge, kV2)},
          {"albert-xxlarge-v2", albert(kXxlarge, kV2)},
          {"albert-base", albert(kBase, kV2)},
          {"elasticbert-base", sized(Family::elasticbert, kBase, 30522)},
          {"elasticbert-large", sized(Family::elasticbert, kLarge, 30522)},
          {"distilbert-base", sized(Family::distilbert, {6, 768, 12, 3072}, 30522)},
          {"electra-small", electra({12, 256, 4, 1024}, 128)},
          {"electra-base", electra(kBase, 768)},
          {"electra-large", electra(kLarge, 1024)},
          {"xlm-roberta-base", roberta(Family::xlm_roberta, kBase, 250002)},
          {"xlm-roberta-large", roberta(Family::xlm_roberta, kLarge, 250002)},
          {"camembert-base", roberta(Family::camembert, kBase, 32005)},
          {"modernbert-base", row_of(Family::modernbert).spec},
          {"modernbert-large", sized(Family::modernbert, {28, 1024, 16, 2624}, 50368)},
          {"deberta-v3-xsmall", deberta({12, 384, 6, 1536})},
          {"deberta-v3-small", deberta({6, 768, 12, 3072})},
          {"deberta-v3-base", deberta(kBase)},
          {"deberta-v3-large", deberta(kLarge)},
          {"minilm-l6", bert({6, 384, 12, 1536}, 30522)},
          {"minilm-l12", bert({12, 384, 12, 1536}, 30522)},
          {"gte-small", bert({12, 384, 12, 1536}, 30522)}};
}

}  // namespace

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> shapes = make_shapes();
  return shapes;
}

const KnownShape& find_shape(std::string_view name) {
  std::vector<std::string> names;
  for (const KnownShape& shape : known_shapes()) {
    if (shape.name == name) return shape;
    names.emplace_back(shape.name);
  }
  throw Error(Code::usage, fmt::format("unknown shape '{}'", name), suggestion(name, names));
}

}  // namespace exeunt
