// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/cost.h"

#include "exeunt/model/config.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

// The shape of a published model, as its config.json on the hub gives it, and its published number of parameters
// (transformers' num_parameters() of the bare class, pooler included).
struct Published {
  std::string name;
  const char* config;
  int64_t parameters;
};

const Published kPublished[] = {
    {"bert-base-uncased",
     R"({"architectures":["BertForMaskedLM"],"attention_probs_dropout_prob":0.1,"gradient_checkpointing":false,
         "hidden_act":"gelu","hidden_dropout_prob":0.1,"hidden_size":768,"initializer_range":0.02,
         "intermediate_size":3072,"layer_norm_eps":1e-12,"max_position_embeddings":512,"model_type":"bert",
         "num_attention_heads":12,"num_hidden_layers":12,"pad_token_id":0,"position_embedding_type":"absolute",
         "transformers_version":"4.6.0.dev0","type_vocab_size":2,"use_cache":true,"vocab_size":30522})",
     109'482'240},
    {"bert-large-uncased",
     R"({"model_type":"bert","hidden_size":1024,"intermediate_size":4096,"num_attention_heads":16,
         "num_hidden_layers":24,"vocab_size":30522})",
     335'141'888},
    {"roberta-base",
     R"({"model_type":"roberta","bos_token_id":0,"eos_token_id":2,"hidden_size":768,"intermediate_size":3072,
         "layer_norm_eps":1e-05,"max_position_embeddings":514,"num_attention_heads":12,"num_hidden_layers":12,
         "pad_token_id":1,"type_vocab_size":1,"vocab_size":50265})",
     124'645'632},
    {"roberta-large",
     R"({"model_type":"roberta","hidden_size":1024,"intermediate_size":4096,"layer_norm_eps":1e-05,
         "max_position_embeddings":514,"num_attention_heads":16,"num_hidden_layers":24,"type_vocab_size":1,
         "vocab_size":50265})",
     355'359'744},
    {"albert-base-v1",
     R"({"model_type":"albert","hidden_act":"gelu","hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1,
         "embedding_size":128,"hidden_size":768,"intermediate_size":3072,"inner_group_num":1,"net_structure_type":0,
         "num_attention_heads":12,"num_hidden_groups":1,"num_hidden_layers":12,"vocab_size":30000})",
     11'683'584},
    {"albert-base-v2",
     R"({"model_type":"albert","hidden_act":"gelu_new","hidden_dropout_prob":0,"attention_probs_dropout_prob":0,
         "embedding_size":128,"hidden_size":768,"intermediate_size":3072,"inner_group_num":1,"num_attention_heads":12,
         "num_hidden_groups":1,"num_hidden_layers":12,"vocab_size":30000,"gap_size":0,"down_scale_factor":1})",
     11'683'584},
    {"albert-large-v1",
     R"({"model_type":"albert","hidden_act":"gelu","hidden_size":1024,"intermediate_size":4096,
         "num_attention_heads":16,"num_hidden_layers":24})",
     17'683'968},
    {"albert-large-v2",
     R"({"model_type":"albert","hidden_size":1024,"intermediate_size":4096,"num_attention_heads":16,
         "num_hidden_layers":24})",
     17'683'968},
    {"albert-xlarge-v1",
     R"({"model_type":"albert","hidden_act":"gelu","hidden_size":2048,"intermediate_size":8192,
         "num_attention_heads":16,"num_hidden_layers":24})",
     58'724'864},
    {"albert-xlarge-v2",
     R"({"model_type":"albert","hidden_size":2048,"intermediate_size":8192,"num_attention_heads":16,
         "num_hidden_layers":24})",
     58'724'864},
    {"albert-xxlarge-v1",
     R"({"model_type":"albert","hidden_act":"gelu","hidden_size":4096,"intermediate_size":16384,
         "num_attention_heads":64,"num_hidden_layers":12})",
     222'595'584},
    {"albert-xxlarge-v2", R"({"model_type":"albert"})", 222'595'584},  // transformers' own defaults
    {"minilm-l12-h384",
     R"({"model_type":"bert","hidden_size":384,"intermediate_size":1536,"num_attention_heads":12,
         "num_hidden_layers":12,"vocab_size":30522})",
     33'360'000},
    {"gte-small",
     R"({"model_type":"bert","hidden_size":384,"intermediate_size":1536,"num_attention_heads":12,
         "num_hidden_layers":12,"vocab_size":30522,"transformers_version":"4.32.0.dev0"})",
     33'360'000},
    // 109,482,240 with one pooler; eleven more of 590,592 parameters each.
    {"elasticbert-base",
     R"({"model_type":"elasticbert","max_output_layers":12,"num_output_layers":1,"hidden_size":768,
         "num_hidden_layers":12,"vocab_size":30522})",
     109'482'240 + 11 * 590'592},
};

ModelSpec spec_of(std::string_view name) {
  for (const Published& model : kPublished) {
    if (model.name == name) return parse_config(parse_json(model.config, model.name), model.name).spec;
  }
  throw std::logic_error("no such model");
}

TEST(Cost, CountsThePublishedParametersOfKnownModels) {
  for (const Published& model : kPublished) {
    EXPECT_EQ(count_parameters(spec_of(model.name), {}).total(), model.parameters) << model.name;
  }
  EXPECT_EQ(count_parameters(spec_of("gte-small"), {}, /*poolers=*/false).total(), 33'212'160);
}

// Figures of the papers' tables: 67M, 184M for the first half of the layers with one pooler and head.
TEST(Cost, CountsModelsCutToTheirFirstLayers) {
  ModelSpec half = spec_of("elasticbert-base");
  half.layers = 6;
  ExitLayout one{{.labels = {"no", "yes"}}, 2};
  one.sites = {{.after = 6, .pooler = 0}};
  one.width = 768;
  EXPECT_EQ(count_parameters(half, one).total() / 1'000'000, 66);
  EXPECT_EQ(count_parameters(half, one).added, 0);
  ModelSpec large = spec_of("bert-large-uncased");
  large.layers = 12;
  one.sites[0].after = 12;
  one.width = 1024;
  EXPECT_EQ(count_parameters(large, one).total() / 1'000'000, 183);
}

// PABEE prints (L − 1)·(d·C + C) as "Added Output Layers Parameters".
TEST(Cost, CountsWhatTheExitsAdd) {
  const ModelSpec spec = spec_of("albert-base-v2");
  ExitLayout pabee = tiny::shared_pooler(spec);
  const ParameterCount count = count_parameters(spec, pabee);
  EXPECT_EQ(count.exits, 768 * 768 + 768 + 12 * (768 * 3 + 3));
  EXPECT_EQ(count.added, 11 * (768 * 3 + 3));
  EXPECT_EQ(count.backbone, 11'683'584 - 590'592);
  EXPECT_EQ(count_parameters(spec, tiny::shared_head(spec)).added, 0);
  pabee.lte = true;
  EXPECT_EQ(count_parameters(spec, pabee).added, 11 * (768 * 3 + 3) + 769);
}

TEST(Cost, CountsATenthExitApartFromTheFirst) {
  const ModelSpec spec = tiny::spec(Family::bert, 12);
  const ParameterCount count = count_parameters(spec, tiny::own_heads(spec));
  EXPECT_EQ(count.exits, 12 * (8 * 8 + 8 + 3 * 8 + 3));
  EXPECT_EQ(count.added, 11 * (8 * 8 + 8 + 3 * 8 + 3));
}

TEST(Cost, CountsTheTensorsACheckpointReallyHas) {
  const ModelSpec spec = tiny::spec(Family::bert);
  TensorSet tensors = tiny::tensors(spec, {});
  const int64_t with = count_parameters(Checkpoint(spec, {}, tensors)).total();
  tensors.tensors.erase("pooler.weight");
  tensors.tensors.erase("pooler.bias");
  EXPECT_EQ(count_parameters(Checkpoint(spec, {}, tensors)).total(), with - 72);
}

TEST(Cost, GivesTheFiguresOfElasticBertsCounter) {
  EXPECT_EQ(layer_macs(spec_of("bert-base-uncased"), 128), 931'921'920);
  EXPECT_NEAR(mflops(layer_macs(spec_of("elasticbert-base"), 128)), 1863.84, 0.005);
  EXPECT_NEAR(mflops(layer_macs(spec_of("elasticbert-base"), 64)), 919.14, 0.005);
  EXPECT_NEAR(mflops(layer_macs(spec_of("bert-large-uncased"), 128)), 3290.43, 0.005);
}

// The same layer counted leaf by leaf, as the counter walks the modules.
TEST(Cost, EqualsTheSumOverTheModules) {
  for (const std::string_view name : {"bert-base-uncased", "roberta-large", "albert-xlarge-v2", "gte-small"}) {
    const ModelSpec spec = spec_of(name);
    for (const int64_t s : {1, 7, 64, 512}) {
      const int64_t d = spec.hidden, f = spec.inner, h = spec.heads, per_head = d / h;
      int64_t sum = 3 * s * d * d + h * (s * s + s * s * per_head + s * s + s * s * per_head);  // attention leaf
      sum += s * d * d + 2 * s * d;                                                             // output and norm
      sum += s * d * f + s * f * d + 2 * s * d;                                                 // feed-forward, norm
      EXPECT_EQ(layer_macs(spec, s), sum) << name << " at " << s;
    }
  }
}

TEST(Cost, CountsEmbeddingsAndHeads) {
  const ModelSpec bert = spec_of("bert-base-uncased");
  EXPECT_EQ(embedding_macs(bert, 128), 2 * 128 * 768);
  EXPECT_EQ(embedding_macs(spec_of("albert-base-v2"), 10), 2 * 10 * 128 + 10 * 128 * 768);
  const ExitLayout own = tiny::own_heads(bert);
  EXPECT_EQ(exit_macs(bert, own, own.sites[0], 128), 768 * 768 + 768 * 3);
  const ExitLayout raw = tiny::raw_heads(bert);
  EXPECT_EQ(exit_macs(bert, raw, raw.sites[0], 128), 768 * 3);
  const ExitLayout readers = tiny::readers(bert);
  EXPECT_EQ(exit_macs(bert, readers, readers.sites[0], 128), 2 * 128 * 768 + 2 * 768 * 768 + 768 * 3);
  const ExitLayout all = tiny::everything(bert);
  EXPECT_EQ(exit_macs(bert, all, all.sites.back(), 128), 768 * 6 + 6 * 5 + 5 * 3);
  EXPECT_EQ(lte_macs(all), 6);
  EXPECT_EQ(lte_macs(own), 0);
}

TEST(Cost, CountsExit0WithoutEmbeddings) {
  const ModelSpec spec = spec_of("bert-base-uncased");
  ExitLayout exits = tiny::own_heads(spec);
  const int64_t first = departure_macs(spec, exits, {.after = 1, .tokens = 128});
  exits.sites.insert(exits.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
  for (const auto& [rank, macs] : {std::pair(3, 10 * 128 * 3), {2, 10 * 128 * 2 + 2 * 3}}) {
    exits.ngrams = NgramShape{.bits = 10, .rank = rank, .piece_bytes = 5};
    EXPECT_EQ(departure_macs(spec, exits, {.after = 0, .tokens = 128}), macs) << rank;
    EXPECT_EQ(departure_macs(spec, exits, {.after = 1, .tokens = 128}), first + macs) << rank;
  }
}

TEST(Cost, AddsUpToTheExitWhereATextLeaves) {
  const ModelSpec spec = spec_of("bert-base-uncased");
  ExitLayout exits = tiny::own_heads(spec);
  const int64_t head = 768 * 768 + 768 * 3, start = 2 * 128 * 768;
  EXPECT_EQ(departure_macs(spec, exits, {.after = 3, .tokens = 128}), start + 3 * (931'921'920 + head));
  const std::vector<int> asked{2, 6, 12};
  EXPECT_EQ(departure_macs(spec, exits, {.after = 6, .tokens = 128, .evaluated = asked}),
            start + 6 * 931'921'920LL + 2 * head);
  exits.lte = true;
  EXPECT_EQ(departure_macs(spec, exits, {.after = 1, .tokens = 128, .lte = true}), start + 931'921'920 + head + 768);
  EXPECT_THROW((void)departure_macs(spec, exits, {.after = 13, .tokens = 128}), std::logic_error);
}

}  // namespace
}  // namespace exeunt
