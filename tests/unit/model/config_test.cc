// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/config.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelConfig parse(const char* text, std::optional<Family> guess = {}) {
  return parse_config(parse_json(text, "config.json"), "config.json", guess);
}

Error config_refusal(const char* text) {
  return error_of([&] { (void)parse(text); });
}

TEST(Config, FillsMissingFieldsAsTransformersDoes) {
  const ModelSpec bert = parse(R"({"model_type": "bert"})").spec;
  EXPECT_EQ(bert.vocab, 30522);
  EXPECT_EQ(bert.hidden, 768);
  EXPECT_EQ(bert.embedding, 768);
  EXPECT_EQ(bert.groups, 0);
  EXPECT_EQ(bert.pad_id, 0);
  EXPECT_EQ(bert.max_tokens(), 512);
  EXPECT_EQ(bert.norm_eps, 1e-12F);
  EXPECT_EQ(bert.activation, Activation::gelu);
  EXPECT_FLOAT_EQ(bert.classifier_dropout, 0.1F);

  const ModelSpec roberta = parse(R"({"model_type": "roberta", "max_position_embeddings": 514})").spec;
  EXPECT_EQ(roberta.vocab, 50265);
  EXPECT_EQ(roberta.pad_id, 1);
  EXPECT_EQ(roberta.position_offset, 2);
  EXPECT_EQ(roberta.max_tokens(), 512);

  const ModelSpec albert = parse(R"({"model_type": "albert"})").spec;
  EXPECT_EQ(albert.hidden, 4096);
  EXPECT_EQ(albert.embedding, 128);
  EXPECT_EQ(albert.groups, 1);
  EXPECT_EQ(albert.activation, Activation::gelu_new);
  EXPECT_EQ(albert.hidden_dropout, 0);
  EXPECT_FLOAT_EQ(albert.classifier_dropout, 0.1F);
}

TEST(Config, IgnoresUnusedFields) {
  EXPECT_EQ(parse(R"({"model_type": "bert", "torch_dtype": "float16", "dtype": "float32", "use_cache": true,
                      "_name_or_path": "x", "classifier_dropout": null, "pad_token_id": null})")
                .spec.hidden,
            768);
}

TEST(Config, ReadsTheActivationUnderAllItsNames) {
  EXPECT_EQ(parse(R"({"model_type": "bert", "hidden_act": "gelu_python"})").spec.activation, Activation::gelu);
  EXPECT_EQ(parse(R"({"model_type": "bert", "hidden_act": "gelu_pytorch_tanh"})").spec.activation,
            Activation::gelu_new);
  EXPECT_EQ(parse(R"({"model_type": "bert", "hidden_act": "relu"})").spec.activation, Activation::relu);
}

TEST(Config, InfersFamilyOfOldFiles) {
  EXPECT_EQ(parse(R"({"max_output_layers": 12})").spec.family, Family::elasticbert);
  EXPECT_EQ(parse(R"({"num_hidden_groups": 1, "hidden_size": 768, "num_attention_heads": 12})").spec.family,
            Family::albert);
  EXPECT_EQ(parse(R"({})", Family::roberta).spec.family, Family::roberta);
  EXPECT_EQ(parse(R"({"model_type": "bert"})", Family::roberta).spec.family, Family::bert);
  const Error error = config_refusal("{}");
  EXPECT_STREQ(error.what(), "config.json: field 'model_type' is missing");
  EXPECT_EQ(error.hint(),
            "add it: one of bert, roberta, albert, elasticbert, distilbert, electra, "
            "xlm-roberta, camembert, modernbert, deberta-v2");
}

TEST(Config, NamesTheTaskOfOtherEncoders) {
  const Error error = config_refusal(R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]})");
  EXPECT_THAT(error.what(), HasSubstr("field 'model_type': got 't5', want one of bert,"));
  EXPECT_EQ(error.hint(), "T5ForConditionalGeneration writes texts, and only these encoders can be read");
  EXPECT_EQ(config_refusal(R"({"model_type": "mpnet", "architectures": ["MPNetModel"]})").hint(),
            "only these encoders can be read");
}

TEST(Config, ReadsLabelsInTheOrderOfTheirIndices) {
  EXPECT_THAT(parse(R"({"model_type": "bert", "id2label": {"10": "k", "0": "a", "1": "b", "2": "c", "3": "d", "4": "e",
                        "5": "f", "6": "g", "7": "h", "8": "i", "9": "j"}})")
                  .heads.labels,
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"));
  EXPECT_THAT(parse(R"({"model_type": "bert", "label2id": {"yes": 1, "no": 0}})").heads.labels,
              ElementsAre("no", "yes"));
  EXPECT_THAT(parse(R"({"model_type": "bert"})").heads.labels, IsEmpty());
}

TEST(Config, RejectsLabelsThatAreNoList) {
  for (const char* text : {R"({"model_type": "bert", "id2label": {"0": "a", "2": "b"}})",
                           R"({"model_type": "bert", "id2label": {"0": "a", "x": "b"}})",
                           R"({"model_type": "bert", "id2label": {"0": "a", "00": "b"}})",
                           R"({"model_type": "bert", "id2label": {"0": 3}})",
                           R"({"model_type": "bert", "label2id": {"a": 0, "b": -1}})"}) {
    EXPECT_THAT(config_refusal(text).what(), HasSubstr("want each index from 0 to")) << text;
  }
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "id2label": ["a"]})").what(), HasSubstr("want an object"));
}

TEST(Config, RejectsUnsupportedArithmetic) {
  EXPECT_THAT(config_refusal(R"({"model_type": "gpt2"})").what(),
              HasSubstr("got 'gpt2', want one of bert, roberta, albert, elasticbert"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "position_embedding_type": "relative_key"})").what(),
              HasSubstr("got 'relative_key', want 'absolute'"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "hidden_act": "silu"})").what(),
              HasSubstr("got 'silu', want one of gelu, gelu_new, relu"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "is_decoder": true})").what(), HasSubstr("only encoders"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "pruned_heads": {"3": [1]}})").what(), HasSubstr("pruned"));
  EXPECT_THAT(config_refusal(R"({"model_type": "albert", "inner_group_num": 2})").what(), HasSubstr("got 2, want 1"));
}

TEST(Config, RejectsSizesOutOfRange) {
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "hidden_size": 0})").what(),
              HasSubstr("field 'hidden_size': got 0, want a whole number from 1 to 16384"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "num_hidden_layers": 100000})").what(),
              HasSubstr("from 1 to 512"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "vocab_size": 1e300})").what(), HasSubstr("vocab_size"));
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "num_attention_heads": 7})").what(),
              HasSubstr("got 7, want a divisor of hidden_size, 768"));
  for (const char* eps : {"0", "1e-52", "0.99999999999", "1"}) {
    const std::string text = fmt::format(R"({{"model_type": "bert", "layer_norm_eps": {}}})", eps);
    EXPECT_THAT(config_refusal(text.c_str()).what(), HasSubstr("above 0")) << eps;
  }
  for (const char* rate : {"1", "0.99999999999"}) {
    const std::string text = fmt::format(R"({{"model_type": "bert", "hidden_dropout_prob": {}}})", rate);
    EXPECT_THAT(config_refusal(text.c_str()).what(), HasSubstr("below 1")) << rate;
  }
  EXPECT_THAT(config_refusal(R"({"model_type": "bert", "pad_token_id": 30522})").what(), HasSubstr("from 0 to 30521"));
  EXPECT_THAT(config_refusal(R"({"model_type": "roberta", "max_position_embeddings": 2})").what(),
              HasSubstr("more than 2, where positions start"));
  EXPECT_THAT(config_refusal(R"({"model_type": "albert", "num_hidden_groups": 13})").what(), HasSubstr("from 1 to 12"));
  EXPECT_THAT(config_refusal(R"({"model_type": "elasticbert", "num_hidden_layers": 6, "num_output_layers": 7})").what(),
              HasSubstr("got 7, want at most num_hidden_layers, 6"));
  EXPECT_THAT(config_refusal("[]").what(), HasSubstr("got a list, want an object"));
}

TEST(Config, ReadsElbertsFields) {
  const ModelConfig config = parse(R"({"model_type": "albert", "num_exit_layers": 3, "use_out_pooler": false,
      "use_fc2": true, "pooler_input": "mean-max", "thres_name": "bias_3", "exit_thres": 0.2, "cnt_thres": 6.0,
      "margin": 0.1, "range_tmp": 0.3})");
  const ExitLayerFields& fields = *config.heads.exit_layers;
  EXPECT_EQ(fields.heads, 3);
  EXPECT_FALSE(fields.shared_pooler);
  EXPECT_TRUE(fields.inner);
  EXPECT_EQ(fields.input, PoolInput::mean_max);
  EXPECT_EQ(config_policy(*fields.rule, 2), "window:0.2,6,bias_3,margin=0.1,range=0.3");
  EXPECT_THAT(config_refusal(R"({"model_type": "albert", "use_out_pooler": true, "pooler_input": "min"})").what(),
              HasSubstr("pooler_input"));
}

// As the families' own folders have them, down to fields of other names.
TEST(Config, ReadsFieldsByTheNamesOfTheFamily) {
  const ModelSpec distil = parse(R"({"model_type": "distilbert", "dim": 24, "n_layers": 2, "n_heads": 4,
                                     "hidden_dim": 40, "activation": "relu", "dropout": 0.3, "hidden_size": 99})")
                               .spec;
  EXPECT_EQ(distil.hidden, 24);
  EXPECT_EQ(distil.layers, 2);
  EXPECT_EQ(distil.inner, 40);
  EXPECT_EQ(distil.segments, 0);
  EXPECT_EQ(distil.activation, Activation::relu);
  EXPECT_FLOAT_EQ(distil.hidden_dropout, 0.3F);
  EXPECT_FLOAT_EQ(distil.classifier_dropout, 0.2F);

  EXPECT_TRUE(parse(R"({"model_type": "electra"})").spec.embedding_projection);
  EXPECT_FALSE(
      parse(R"({"model_type": "electra", "hidden_size": 768, "embedding_size": 768, "num_attention_heads": 12})")
          .spec.embedding_projection);

  const ModelSpec xlm = parse(R"({"model_type": "xlm-roberta", "vocab_size": 250002, "type_vocab_size": 1,
                                  "max_position_embeddings": 514, "layer_norm_eps": 1e-05})")
                            .spec;
  EXPECT_EQ(xlm.position_offset, 2);
  EXPECT_EQ(xlm.max_tokens(), 512);
  EXPECT_EQ(xlm.vocab, 250002);
}

constexpr const char* kDeberta =
    R"("model_type": "deberta-v2", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
       "intermediate_size": 3072, "relative_attention": true, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
       "share_att_key": true, "pos_att_type": "p2c|c2p", "max_relative_positions": -1,
       "position_biased_input": false, "type_vocab_size": 0, "vocab_size": 128100)";

TEST(Config, ReadsDebertaAndModernBertAsTheyArePublished) {
  const ModelConfig deberta = parse(fmt::format("{{{}}}", kDeberta).c_str());
  EXPECT_EQ(deberta.spec.relative_buckets, 256);
  EXPECT_EQ(deberta.spec.relative_distance, 512);
  EXPECT_EQ(deberta.spec.norm_eps, 1e-7F);
  EXPECT_FALSE(deberta.spec.position_table);
  EXPECT_EQ(deberta.heads.pooler.activation, PoolerActivation::gelu);

  const ModelConfig before = parse(R"({"model_type": "modernbert", "global_rope_theta": 160000.0,
      "local_rope_theta": 10000.0, "local_attention": 128, "global_attn_every_n_layers": 3,
      "classifier_pooling": "mean"})");
  EXPECT_EQ(before.spec.window, 64);
  EXPECT_EQ(before.spec.global_every, 3);
  EXPECT_EQ(before.spec.max_tokens(), 8192);
  EXPECT_EQ(before.heads.input, PoolInput::mean);
  EXPECT_EQ(before.heads.pooler, (PoolerShape{PoolerActivation::gelu, false, true}));
  const ModelSpec now = parse(R"({"model_type": "modernbert", "num_hidden_layers": 5, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention"], "rope_parameters":
      {"full_attention": {"rope_type": "default", "rope_theta": 9000.0},
       "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}})")
                            .spec;
  EXPECT_EQ(now.global_every, 2);
  EXPECT_EQ(now.rotary_base, 9000.0F);
  EXPECT_EQ(now.local_rotary_base, 500.0F);
}

TEST(Config, ShortModernBertRoundTrips) {
  const ModelSpec spec = parse(R"({"model_type": "modernbert", "num_hidden_layers": 2})").spec;
  EXPECT_EQ(spec.global_every, 2);  // not 3: the second layer is the last, and local
  const std::string written = json_text(exeunt_config(spec));
  EXPECT_EQ(json_text(exeunt_config(parse(written.c_str()).spec)), written);
}

TEST(Config, NamesTheFieldThatAsksForSomethingUnsupported) {
  const auto deberta = [](const char* more) { return fmt::format("{{{}, {}}}", kDeberta, more); };
  const auto modern = [](const char* more) { return fmt::format(R"({{"model_type": "modernbert", {}}})", more); };
  const std::pair<std::string, const char*> cases[] = {
      {deberta(R"("conv_kernel_size": 3)"), "field 'conv_kernel_size': got 3, want 0"},
      {deberta(R"("embedding_size": 128)"), "field 'embedding_size': got 128, want 768"},
      {deberta(R"("pooler_hidden_size": 10)"), "field 'pooler_hidden_size': got 10"},
      {deberta(R"("pooler_hidden_act": "silu")"),
       "field 'pooler_hidden_act': got 'silu', want one of tanh, relu, gelu"},
      {R"({"model_type": "deberta-v2"})", "field 'relative_attention': got false, want true"},
      {modern(R"("norm_bias": true)"), "field 'norm_bias': got true, want false"},
      {modern(R"("mlp_bias": true)"), "field 'mlp_bias': got true"},
      {modern(R"("classifier_pooling": "max")"), "field 'classifier_pooling': got 'max', want one of cls, mean"},
      {modern(R"("rope_scaling": {"type": "yarn"})"), "field 'rope_scaling'"},
      {modern(R"("rope_parameters": {"full_attention": {"rope_type": "yarn"}})"), "field 'rope_type': got 'yarn'"},
      {modern(R"("num_hidden_layers": 2, "layer_types": ["full_attention"])"), "field 'layer_types'"},
      {modern(R"("num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"])"),
       "want full_attention in every nth layer from the first on"},
      {modern(R"("num_attention_heads": 256)"),
       "field 'num_attention_heads': got 256, want one that leaves each an even"},
      {modern(R"("vocab_size": 100)"),
       "field 'pad_token_id': got none, which stands for 50283, want a number below vocab_size, 100"},
      {R"({"model_type": "deberta"})", "field 'model_type': got 'deberta', want one of bert,"},
      {R"({"model_type": "distilbert", "n_heads": 5})", "field 'n_heads': got 5, want a divisor of dim, 768"},
      {R"({"model_type": "electra", "position_embedding_type": "relative_key"})",
       "field 'position_embedding_type': got 'relative_key', want 'absolute'"},
      {R"({"model_type": "xlm-roberta", "is_decoder": true})", "field 'is_decoder': got true"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_THAT(config_refusal(text.c_str()).what(), HasSubstr(wanted)) << text;
  // Where the same key is given twice in these texts, JSON itself refuses it; these replace one of the fields.
  for (const auto& [from, to, wanted] :
       {std::tuple{"\"share_att_key\": true", "\"share_att_key\": false", "share_att_key"},
        std::tuple{"p2c|c2p", "c2p", "field 'pos_att_type'"},
        std::tuple{"layer_norm\"", "none\"", "field 'norm_rel_ebd'"},
        std::tuple{"\"position_buckets\": 256", "\"position_buckets\": -1", "field 'position_buckets': got -1"},
        std::tuple{"_input\": false", "_input\": true", "position_biased_input"}}) {
    std::string text = fmt::format("{{{}}}", kDeberta);
    text.replace(text.find(from), std::string_view(from).size(), to);
    EXPECT_THAT(config_refusal(text.c_str()).what(), HasSubstr(wanted)) << text;
  }
}

TEST(Config, SpecRoundTrips) {
  for (const FamilyRow& row : families()) {
    const Family family = row.spec.family;
    const ModelSpec spec = tiny::spec(family);
    const ExitLayout exits = tiny::own_heads(spec);
    for (const OrderedJson& written :
         {exeunt_config(spec), hugging_face_config(spec, exits, "BertModel", DType::bf16)}) {
      const ModelConfig again = parse(json_text(written).c_str());
      EXPECT_EQ(json_text(exeunt_config(again.spec)), json_text(exeunt_config(spec)));
      EXPECT_EQ(again.spec.norm_eps, spec.norm_eps);
      EXPECT_EQ(again.spec.position_offset, spec.position_offset);
    }
    EXPECT_THAT(parse(json_text(hugging_face_config(spec, exits, "X", DType::f32)).c_str()).heads.labels,
                ElementsAre("no", "maybe", "yes"));
  }
}

TEST(Config, WritesManyLabelsInLinearTime) {
  const ModelSpec spec = tiny::spec(Family::bert);
  const auto labelled = [&](size_t count) {
    ExitLayout exits = tiny::own_heads(spec);
    exits.labels.clear();
    for (size_t i = 0; i < count; ++i) exits.labels.push_back(fmt::format("l{}", i));
    return exits;
  };
  EXPECT_LT(growth_exponent(
                2000, labelled,
                [&](const ExitLayout& exits) { (void)hugging_face_config(spec, exits, "BertModel", DType::f32); }),
            1.5);
}

}  // namespace
}  // namespace exeunt
