// SPDX-License-Identifier: Apache-2.0
// One test per system: its names in, our layout and the right tensor under each of our names out.
#include "exeunt/model/import.h"

#include "tests/unit/model/others.h"

namespace exeunt {
namespace {

using others::Builder;
using others::kHidden;
using others::kInner;
using others::kLayers;
using others::kPositions;
using others::kVocab;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Checkpoint import(Builder& builder, const Json& config) {
  return import_checkpoint({.tensors = builder.set(), .config = config});
}

Error import_refusal(Builder& builder, const Json& config) {
  return error_of([&] { (void)import(builder, config); });
}

void expect_same(const Checkpoint& checkpoint, const std::string& ours, Builder& builder, const std::string& theirs) {
  const TensorView* got = checkpoint.find(ours);
  const TensorView* want = builder.set().find(theirs);
  ASSERT_NE(got, nullptr) << ours;
  ASSERT_NE(want, nullptr) << theirs;
  EXPECT_EQ(got->bytes.data(), want->bytes.data()) << ours << " is not " << theirs << ", or was copied";
}

void expect_bert_layer(const Checkpoint& checkpoint, Builder& builder, const std::string& prefix) {
  expect_same(checkpoint, "embeddings.word.weight", builder, prefix + "embeddings.word_embeddings.weight");
  expect_same(checkpoint, "embeddings.segment.weight", builder, prefix + "embeddings.token_type_embeddings.weight");
  const std::string layer = prefix + "encoder.layer.2.";
  expect_same(checkpoint, "layer.2.value.bias", builder, layer + "attention.self.value.bias");
  expect_same(checkpoint, "layer.2.output.weight", builder, layer + "attention.output.dense.weight");
  expect_same(checkpoint, "layer.2.ffn1.weight", builder, layer + "intermediate.dense.weight");
  expect_same(checkpoint, "layer.2.ffn2.weight", builder, layer + "output.dense.weight");
}

TEST(Import, ReadsDeeBertWithItsLastRampBesideTheFinalHead) {
  Builder b;
  b.bert("bert.");
  b.highways("bert.", "pooler.dense", 2);
  b.tensor("bert.embeddings.position_ids", {1, 10});
  const Checkpoint checkpoint = import(b, others::config("bert", {{"id2label", {{"0", "no"}, {"1", "yes"}}}}));
  const ExitLayout& exits = checkpoint.exits();
  ASSERT_EQ(exits.sites.size(), 4U);
  EXPECT_THAT(exits.labels, ElementsAre("no", "yes"));
  EXPECT_EQ(exits.last_ramp->pooler, 4);
  EXPECT_EQ(exits.compat_last_ramp, LastHead::final);
  EXPECT_FALSE(exits.lte);
  expect_bert_layer(checkpoint, b, "bert.");
  expect_same(checkpoint, "exits.pooler.1.weight", b, "bert.encoder.highway.1.pooler.dense.weight");
  expect_same(checkpoint, "exits.classifier.1.bias", b, "bert.encoder.highway.1.classifier.bias");
  expect_same(checkpoint, "exits.pooler.3.weight", b, "bert.pooler.dense.weight");
  expect_same(checkpoint, "exits.classifier.3.weight", b, "classifier.weight");
  expect_same(checkpoint, "exits.pooler.4.weight", b, "bert.encoder.highway.3.pooler.dense.weight");
  expect_same(checkpoint, "exits.classifier.4.weight", b, "bert.encoder.highway.3.classifier.weight");
  EXPECT_THAT(checkpoint.notices(), IsEmpty());
}

TEST(Import, ReadsRomeBertOverRobertaAndLeavesItsTeacherOut) {
  Builder b;
  b.bert("roberta.", 1);
  b.highways("roberta.", "pooler.dense", 3);
  b.linear("slow_bert.pooler.dense", kHidden, kHidden);
  b.linear("slow_classifier", 3, kHidden);
  const Checkpoint checkpoint = import(b, others::config("roberta", {{"layer_norm_eps", 1e-5}}));
  EXPECT_EQ(checkpoint.spec().position_offset, 2);
  EXPECT_THAT(checkpoint.exits().labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  expect_same(checkpoint, "exits.pooler.3.weight", b, "roberta.pooler.dense.weight");
  EXPECT_THAT(checkpoint.notices(), IsEmpty());
}

TEST(Import, ReadsBerxitOverAlbertWithItsLearningToExitHead) {
  Builder b;
  b.albert("albert.");
  b.albert("core.");
  b.highways("albert.", "pooler", 2);
  b.linear("albert.encoder.lte_classifier", 1, kHidden);
  const Checkpoint checkpoint = import(b, others::config("albert"));
  EXPECT_TRUE(checkpoint.exits().lte);
  expect_same(checkpoint, "exits.lte.weight", b, "albert.encoder.lte_classifier.weight");
  expect_same(checkpoint, "exits.pooler.3.weight", b, "albert.pooler.weight");
  expect_same(checkpoint, "group.0.output.weight", b,
              "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.weight");
  expect_same(checkpoint, "group.0.ffn_norm.bias", b,
              "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.bias");
  expect_same(checkpoint, "embeddings.project.weight", b, "albert.encoder.embedding_hidden_mapping_in.weight");
  EXPECT_THAT(checkpoint.notices(), IsEmpty());
}

TEST(Import, ReadsPabeeWithOnePoolerForAllExits) {
  for (const std::string family : {"bert", "albert"}) {
    Builder b;
    family == "bert" ? b.bert("bert.") : b.albert("albert.");
    const std::string pooler = family == "bert" ? "bert.pooler.dense" : "albert.pooler";
    b.linear(pooler, kHidden, kHidden);
    for (int i = 0; i < kLayers; ++i) b.linear("classifiers." + std::to_string(i), 3, kHidden);
    const Checkpoint checkpoint = import(b, others::config(family));
    ASSERT_EQ(checkpoint.exits().sites.size(), 4U);
    EXPECT_EQ(checkpoint.exits().poolers(), 1);
    EXPECT_EQ(checkpoint.exits().classifiers(), 4);
    expect_same(checkpoint, "exits.pooler.0.weight", b, pooler + ".weight");
    expect_same(checkpoint, "exits.classifier.3.weight", b, "classifiers.3.weight");
    EXPECT_THAT(checkpoint.notices(), IsEmpty());
  }
}

TEST(Import, ReadsElasticBertWithExitsAtItsLastLayers) {
  for (const int exits : {1, 2, 4}) {
    Builder b;
    b.bert("elasticbert.");
    for (int i = 0; i < kLayers; ++i) {
      b.linear("elasticbert.encoder.pooler." + std::to_string(i) + ".dense", kHidden, kHidden);
    }
    for (int i = 0; i < exits; ++i) b.linear("classifiers." + std::to_string(i), 2, kHidden);
    const Checkpoint checkpoint =
        import(b, others::config("elasticbert", {{"num_output_layers", exits}, {"max_output_layers", 4}}));
    ASSERT_EQ(checkpoint.exits().sites.size(), static_cast<size_t>(exits));
    EXPECT_EQ(checkpoint.exits().sites.front().after, kLayers - exits + 1);
    expect_same(checkpoint, "exits.pooler.0.weight", b,
                "elasticbert.encoder.pooler." + std::to_string(kLayers - exits) + ".dense.weight");
    expect_same(checkpoint, "exits.classifier.0.weight", b, "classifiers.0.weight");
    EXPECT_EQ(checkpoint.notices().size(), exits == 4 ? 0U : 1U);
  }
}

TEST(Import, ReadsStaticElasticBertCutToItsFirstLayers) {
  Builder b;
  b.bert("elasticbert.");
  for (int i = 0; i < kLayers; ++i) {
    b.linear("elasticbert.encoder.pooler." + std::to_string(i) + ".dense", kHidden, kHidden);
  }
  b.linear("classifier", 2, kHidden);
  const Checkpoint checkpoint =
      import(b, others::config("elasticbert", {{"num_hidden_layers", 3}, {"num_output_layers", 1}}));
  EXPECT_EQ(checkpoint.spec().layers, 3);
  EXPECT_EQ(checkpoint.exits().sites.at(0).after, 3);
  expect_same(checkpoint, "exits.pooler.0.weight", b, "elasticbert.encoder.pooler.2.dense.weight");
  EXPECT_THAT(checkpoint.notices(), Contains("kept the first 3 of 4 layers, as the configuration says"));
}

TEST(Import, NamesNoTensorOfTruncatedLayersAsIgnored) {
  Builder b;
  b.bert("bert.");
  EXPECT_THAT(import(b, others::config("bert", {{"num_hidden_layers", kLayers - 1}})).notices(),
              ElementsAre("kept the first 3 of 4 layers, as the configuration says"));
}

TEST(Import, ReadsElasticBertWithoutPoolersAsRawHeads) {
  Builder b;
  b.bert("elasticbert.");
  for (int i = 0; i < kLayers; ++i) b.linear("classifiers." + std::to_string(i), 2, kHidden);
  const Checkpoint checkpoint = import(b, others::config("elasticbert"));
  EXPECT_EQ(checkpoint.exits().poolers(), 0);
  EXPECT_EQ(checkpoint.exits().sites.size(), 4U);
}

TEST(Import, KeepsThePretrainedPoolersOfABareElasticBert) {
  for (const std::string prefix : {"", "elasticbert."}) {
    Builder b;
    b.bert(prefix);
    for (int i = 0; i < kLayers; ++i) {
      b.linear(prefix + "encoder.pooler." + std::to_string(i) + ".dense", kHidden, kHidden);
    }
    b.linear("cls.predictions.transform.dense", kHidden, kHidden);
    const Checkpoint checkpoint = import(b, others::config("elasticbert"));
    EXPECT_TRUE(checkpoint.exits().sites.empty());
    expect_same(checkpoint, "pooler.3.bias", b, prefix + "encoder.pooler.3.dense.bias");
    EXPECT_THAT(checkpoint.notices(), IsEmpty());
  }
}

Json elbert_config(Json more = Json::object()) {
  Json config = others::config("albert", {{"hidden_act", "gelu"},
                                          {"num_exit_layers", 1},
                                          {"use_out_pooler", true},
                                          {"use_fc2", false},
                                          {"pooler_input", "cls"},
                                          {"thres_name", "bias_1"},
                                          {"exit_thres", 0.1},
                                          {"cnt_thres", 8.0},
                                          {"margin", 0.0}});
  config.update(more);
  return config;
}

TEST(Import, ReadsElbertsOneHeadForAllLayersAndItsRule) {
  Builder b;
  b.albert("albert.");
  b.linear("albert.pooler", kHidden, kHidden);
  b.linear("albert.encoder.exit_out_layer.classifier", 2, kHidden);
  const Checkpoint checkpoint = import(b, elbert_config());
  EXPECT_EQ(checkpoint.exits().sites.size(), 4U);
  EXPECT_EQ(checkpoint.exits().classifiers(), 1);
  EXPECT_EQ(checkpoint.spec().activation, Activation::gelu);
  expect_same(checkpoint, "exits.pooler.0.weight", b, "albert.pooler.weight");
  expect_same(checkpoint, "exits.classifier.0.weight", b, "albert.encoder.exit_out_layer.classifier.weight");
  EXPECT_EQ(checkpoint.native_policy(), "window:0.1,8,bias_1");
  EXPECT_THAT(checkpoint.notices(), IsEmpty());
}

TEST(Import, ReadsElbertsGroupsWithTheirOwnPoolersAndSecondLayer) {
  Builder b;
  b.albert("albert.");
  b.linear("albert.pooler", kHidden, kHidden);
  for (int k = 0; k < 2; ++k) {
    const std::string head = "albert.encoder.exit_out_layers." + std::to_string(k);
    b.linear(head + ".pooler", 6, kHidden);
    b.linear(head + ".classifier1", 5, 6);
    b.linear(head + ".classifier2", 2, 5);
  }
  const Checkpoint checkpoint = import(b, elbert_config({{"num_exit_layers", 2},
                                                         {"use_out_pooler", false},
                                                         {"use_fc2", true},
                                                         {"pooler_input", "cls-mean"},
                                                         {"thres_name", "bias_3"}}));
  const ExitLayout& exits = checkpoint.exits();
  EXPECT_EQ(exits.sites[1].classifier, 0);
  EXPECT_EQ(exits.sites[2].classifier, 1);
  EXPECT_EQ(exits.width, 6);
  EXPECT_EQ(exits.inner, 5);
  EXPECT_EQ(exits.input, PoolInput::cls_mean);
  expect_same(checkpoint, "exits.pooler.1.weight", b, "albert.encoder.exit_out_layers.1.pooler.weight");
  expect_same(checkpoint, "exits.classifier.1.inner.bias", b, "albert.encoder.exit_out_layers.1.classifier2.bias");
  EXPECT_THAT(checkpoint.notices(), ElementsAre(HasSubstr("exit rule 'bias_3'"), HasSubstr("albert.pooler.bias")));
  EXPECT_EQ(checkpoint.native_policy(), std::nullopt);
}

TEST(Import, ReadsTransformersOneHeadOfEachFamily) {
  Builder bert;
  bert.bert("bert.", 2, /*old_names=*/true);
  bert.linear("bert.pooler.dense", kHidden, kHidden);
  bert.linear("classifier", 2, kHidden);
  const Checkpoint first = import(bert, others::config("bert"));
  EXPECT_EQ(first.exits().sites.at(0).after, kLayers);
  expect_same(first, "exits.pooler.0.weight", bert, "bert.pooler.dense.weight");
  expect_same(first, "layer.0.attention_norm.weight", bert, "bert.encoder.layer.0.attention.output.LayerNorm.gamma");
  expect_same(first, "layer.0.attention_norm.bias", bert, "bert.encoder.layer.0.attention.output.LayerNorm.beta");

  Builder roberta;
  roberta.bert("roberta.", 1);
  roberta.linear("classifier.dense", kHidden, kHidden);
  roberta.linear("classifier.out_proj", 1, kHidden);
  const Checkpoint second = import(roberta, others::config("roberta"));
  EXPECT_EQ(second.exits().problem, Problem::regression);
  EXPECT_TRUE(second.exits().labels.empty());
  expect_same(second, "exits.pooler.0.weight", roberta, "classifier.dense.weight");
  expect_same(second, "exits.classifier.0.weight", roberta, "classifier.out_proj.weight");

  Builder albert;
  albert.albert("albert.");
  albert.linear("albert.pooler", kHidden, kHidden);
  albert.linear("classifier", 2, kHidden);
  expect_same(import(albert, others::config("albert")), "exits.pooler.0.bias", albert, "albert.pooler.bias");
}

TEST(Import, ReadsBareEncodersWithAndWithoutPrefixAndPooler) {
  for (const std::string prefix : {"", "bert.", "module.bert."}) {
    for (const bool pooler : {false, true}) {
      Builder b;
      b.bert(prefix);
      if (pooler) b.linear(prefix + "pooler.dense", kHidden, kHidden);
      b.linear("cls.predictions.transform.dense", kHidden, kHidden);
      const Checkpoint checkpoint = import(b, others::config("bert"));
      EXPECT_TRUE(checkpoint.exits().sites.empty());
      EXPECT_EQ(checkpoint.find("pooler.weight") != nullptr, pooler);
      EXPECT_THAT(checkpoint.notices(), IsEmpty());
      expect_bert_layer(checkpoint, b, prefix);
    }
  }
}

TEST(Import, InfersFamilyOfOldFolders) {
  Json config = others::config("bert");
  config.erase("model_type");
  Builder roberta;
  roberta.bert("roberta.");
  EXPECT_EQ(import(roberta, config).spec().family, Family::roberta);
  Builder bare;
  bare.bert("");
  EXPECT_THAT(import_refusal(bare, config).what(), HasSubstr("field 'model_type' is missing"));
}

// transformers' names of ModernBERT: query, key and value are one tensor, and so are the two halves of the gated inner
// map.
Builder modernbert(int64_t fused_rows = 3 * kHidden) {
  Builder b;
  b.tensor("model.embeddings.tok_embeddings.weight", {kVocab, kHidden});
  b.tensor("model.embeddings.norm.weight", {kHidden});
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    if (i > 0) b.tensor(layer + "attn_norm.weight", {kHidden});
    b.tensor(layer + "attn.Wqkv.weight", {fused_rows, kHidden});
    b.tensor(layer + "attn.Wo.weight", {kHidden, kHidden});
    b.tensor(layer + "mlp_norm.weight", {kHidden});
    b.tensor(layer + "mlp.Wi.weight", {2 * kInner, kHidden});
    b.tensor(layer + "mlp.Wo.weight", {kHidden, kInner});
  }
  b.tensor("model.final_norm.weight", {kHidden});
  b.tensor("head.dense.weight", {kHidden, kHidden});
  b.tensor("head.norm.weight", {kHidden});
  return b;
}

TEST(Import, CutsModernBertsFusedTensorsAndReadsItsHead) {
  Builder b = modernbert();
  b.linear("classifier", 3, kHidden);
  const Checkpoint checkpoint = import(b, others::config("modernbert", {{"classifier_pooling", "mean"}}));
  EXPECT_THAT(checkpoint.notices(), IsEmpty());
  const auto rows = [&](const char* name, int64_t first, int64_t count) {
    return to_floats(row_slice(*b.set().find(name), first, count));
  };
  EXPECT_EQ(to_floats(checkpoint.get("layer.2.query.weight")), rows("model.layers.2.attn.Wqkv.weight", 0, kHidden));
  EXPECT_EQ(to_floats(checkpoint.get("layer.2.value.weight")),
            rows("model.layers.2.attn.Wqkv.weight", 2 * kHidden, kHidden));
  EXPECT_EQ(to_floats(checkpoint.get("layer.2.gate.weight")), rows("model.layers.2.mlp.Wi.weight", kInner, kInner));
  EXPECT_EQ(checkpoint.exits().input, PoolInput::mean);
  EXPECT_TRUE(checkpoint.exits().pooler.norm);
  EXPECT_EQ(to_floats(checkpoint.get("exits.pooler.0.norm.weight")), to_floats(*b.set().find("head.norm.weight")));

  Builder narrow = modernbert(2 * kHidden);
  EXPECT_THAT(import_refusal(narrow, others::config("modernbert")).what(),
              HasSubstr("tensor 'model.layers.0.attn.Wqkv.weight': got shape [16, 8], want [24, 8]"));
}

TEST(Import, ReadsTheHeadOfAMaskedModelAsNone) {
  Builder b = modernbert();
  EXPECT_TRUE(import(b, others::config("modernbert")).exits().sites.empty());
}

TEST(Import, ReadsTheHeadsOfDistilBertAndElectra) {
  Builder electra;
  electra.bert("electra.");
  electra.linear("classifier.dense", kHidden, kHidden);
  electra.linear("classifier.out_proj", 3, kHidden);
  const Checkpoint one = import(electra, others::config("electra", {{"embedding_size", kHidden}}));
  EXPECT_EQ(one.exits().pooler.activation, PoolerActivation::gelu);
  EXPECT_EQ(one.exits().outputs, 3);

  Builder distil;
  distil.tensor("distilbert.embeddings.word_embeddings.weight", {kVocab, kHidden});
  distil.tensor("distilbert.embeddings.position_embeddings.weight", {kPositions, kHidden});
  distil.norm("distilbert.embeddings.LayerNorm", kHidden);
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = fmt::format("distilbert.transformer.layer.{}.", i);
    for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"}) {
      distil.linear(layer + "attention." + part, kHidden, kHidden);
    }
    distil.norm(layer + "sa_layer_norm", kHidden);
    distil.linear(layer + "ffn.lin1", kInner, kHidden);
    distil.linear(layer + "ffn.lin2", kHidden, kInner);
    distil.norm(layer + "output_layer_norm", kHidden);
  }
  distil.linear("pre_classifier", kHidden, kHidden);
  distil.linear("classifier", 3, kHidden);
  const Json config = {{"model_type", "distilbert"},
                       {"dim", kHidden},
                       {"n_layers", kLayers},
                       {"n_heads", 2},
                       {"hidden_dim", kInner},
                       {"vocab_size", kVocab},
                       {"max_position_embeddings", kPositions}};
  const Checkpoint two = import(distil, config);
  EXPECT_THAT(two.notices(), IsEmpty());
  EXPECT_EQ(two.exits().pooler.activation, PoolerActivation::relu);
  EXPECT_EQ(to_floats(two.get("exits.pooler.0.weight")), to_floats(*distil.set().find("pre_classifier.weight")));
}

TEST(Import, ReadsATokenClassifierAsABareEncoder) {
  Builder b;
  b.bert("bert.");
  b.linear("classifier", 9, kHidden);
  const Checkpoint checkpoint = import(b, others::config("bert", {{"architectures", {"BertForTokenClassification"}}}));
  EXPECT_TRUE(checkpoint.exits().sites.empty());
  EXPECT_THAT(checkpoint.notices(), Contains(HasSubstr("read as an encoder without heads")));
}

TEST(Import, NamesAFewLeftOverTensors) {
  Builder b;
  b.bert("bert.");
  for (const char* name : {"a.x", "b.x", "c.x", "d.x"}) b.tensor(name, {1});
  EXPECT_THAT(import(b, others::config("bert")).notices(),
              ElementsAre("4 tensors of the file are not part of this model and are ignored: a.x, b.x, c.x, …"));
}

TEST(Import, FallsBackToNumberedLabelsWithANotice) {
  Builder b;
  b.bert("bert.");
  b.linear("bert.pooler.dense", kHidden, kHidden);
  b.linear("classifier", 3, kHidden);
  const Checkpoint checkpoint = import(b, others::config("bert", {{"id2label", {{"0", "no"}, {"1", "yes"}}}}));
  EXPECT_THAT(checkpoint.exits().labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(checkpoint.notices(), Contains(HasSubstr("names 2 distinct labels, the weights have 3 outputs")));
}

TEST(Import, MissingTensorErrorUsesNamesOfSource) {
  Builder b;
  b.bert("bert.");
  b.highways("bert.", "pooler.dense", 2);
  b.set().tensors.erase("bert.encoder.highway.2.classifier.bias");
  EXPECT_THAT(import_refusal(b, others::config("bert")).what(),
              HasSubstr("tensor 'bert.encoder.highway.2.classifier.bias' (exits.classifier.2.bias) is missing"));
  Builder half;
  half.bert("bert.", 2, false, 2);
  const Error error = import_refusal(half, others::config("bert"));
  EXPECT_THAT(error.what(), HasSubstr("'bert.encoder.layer.2.attention.self.query.weight'"));
  EXPECT_EQ(error.hint(), "the weights have 2 layers, the configuration says 4");
}

TEST(Import, RejectsIncompleteHeads) {
  Builder pabee;
  pabee.bert("bert.");
  pabee.linear("bert.pooler.dense", kHidden, kHidden);
  for (int i = 0; i < 3; ++i) pabee.linear("classifiers." + std::to_string(i), 2, kHidden);
  EXPECT_THAT(import_refusal(pabee, others::config("bert")).what(),
              HasSubstr("got 3 classifiers, want one for each of 4"));

  Builder elastic;
  elastic.bert("elasticbert.");
  for (int i = 0; i < 3; ++i) elastic.linear("classifiers." + std::to_string(i), 2, kHidden);
  EXPECT_THAT(import_refusal(elastic, others::config("elasticbert", {{"num_output_layers", 4}})).what(),
              HasSubstr("got 3 classifiers, want 4: num_output_layers"));

  Builder elbert;
  elbert.albert("albert.");
  elbert.linear("albert.pooler", kHidden, kHidden);
  elbert.linear("albert.encoder.exit_out_layer.classifier", 2, kHidden);
  EXPECT_THAT(import_refusal(elbert, elbert_config({{"num_exit_layers", 2}})).what(),
              HasSubstr("got 1 exit layers, want 2 as num_exit_layers says"));
  EXPECT_THAT(import_refusal(elbert, elbert_config({{"use_out_pooler", false}})).what(),
              HasSubstr("tensor 'albert.encoder.exit_out_layer.pooler.weight' is missing"));

  Builder uneven;
  uneven.albert("albert.");
  uneven.linear("albert.pooler", kHidden, kHidden);
  for (int k = 0; k < 3; ++k)
    uneven.linear("albert.encoder.exit_out_layers." + std::to_string(k) + ".classifier", 2, 8);
  EXPECT_THAT(import_refusal(uneven, elbert_config({{"num_exit_layers", 3}})).what(),
              HasSubstr("got 3 exit layers, want a divisor of the 4 layers"));

  Builder deebert;
  deebert.bert("bert.");
  deebert.highways("bert.", "pooler.dense", 2);
  deebert.set().tensors.erase("classifier.weight");
  EXPECT_THAT(import_refusal(deebert, others::config("bert")).what(), HasSubstr("classifier.weight' is missing"));
}

TEST(Import, RejectsUnsupportedProblemTypes) {
  Builder b;
  b.bert("bert.");
  b.linear("bert.pooler.dense", kHidden, kHidden);
  b.linear("classifier", 3, kHidden);
  EXPECT_THAT(import_refusal(b, others::config("bert", {{"problem_type", "token_classification"}})).what(),
              HasSubstr("got 'token_classification', want regression, single_label_classification or "
                        "multi_label_classification"));
  EXPECT_THAT(import_refusal(b, others::config("bert", {{"problem_type", "regression"}})).what(),
              HasSubstr("regression with 3 outputs"));
  b.set().tensors["classifier.weight"].shape = {24};
  EXPECT_THAT(import_refusal(b, others::config("bert")).what(),
              HasSubstr("tensor 'classifier.weight': got shape [24]"));
}

TEST(Import, ReadsProblemTypesAsTransformersNamesThem) {
  Builder b;
  b.bert("bert.");
  b.linear("bert.pooler.dense", kHidden, kHidden);
  b.linear("classifier", 3, kHidden);
  const auto problem = [&](const char* type) {
    return import(b, others::config("bert", {{"problem_type", type}})).exits().problem;
  };
  EXPECT_EQ(problem("multi_label_classification"), Problem::multi_label);
  EXPECT_EQ(problem("single_label_classification"), Problem::classification);
  EXPECT_EQ(import(b, others::config("bert")).exits().problem, Problem::classification);
}

TEST(Import, RejectsTensorUnderTwoNames) {
  Builder b;
  b.bert("bert.");
  b.bert("");
  EXPECT_THAT(import_refusal(b, others::config("bert")).what(), HasSubstr("are the same tensor"));
}

}  // namespace
}  // namespace exeunt
