// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/model_card.h"

#include "exeunt/base/files.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/golden_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using testing::Not;

Checkpoint card_model(Family family = Family::bert) {
  const ModelSpec spec = tiny::spec(family);
  ExitLayout exits = tiny::own_heads(spec);
  exits.labels = {"no", "may|be", "**yes**"};
  return {spec, exits, tiny::tensors(spec, exits, DType::f32)};
}

PolicyFile card_policy() {
  PolicyEntry entry;
  entry.exits = {2, 4};
  entry.precision = "fp32";
  entry.decision_temperature = entry.score_temperature = {1, 1, 1, 1};
  entry.policy = parse_policy("entropy:0.2");
  entry.points = {{parse_policy("entropy:0.2"), 0.01, 0.5}, {parse_policy("entropy:0.4"), 0.02, 0.25}};
  entry.certificate.emplace();
  entry.certificate->max_drop = 0.01;
  entry.certificate->delta = 0.05;
  entry.certificate->rows = 2000;
  entry.certificate->fit.data = std::string(64, 'b');
  entry.certificate->certify.data = std::string(64, 'c');
  PolicyFile file{.weights = std::string(64, 'a'), .default_precision = "fp32", .entries = {}};
  file.put(entry);
  return file;
}

Json card_results() {
  return {{"exits",
           {{{"layer", 1}, {"accuracy", 0.5}, {"f1", nullptr}},
            {{"layer", 2}, {"accuracy", 0.625}},
            {{"layer", 3}, {"accuracy", 0.75}},
            {{"layer", 4}, {"accuracy", 0.875}}}}};
}

TEST(ModelCard, ContainsExitsPromiseAndResults) {
  CardFacts facts{.name = "sst2", .policy = card_policy(), .results = card_results()};
  facts.recipe = {{"name", "pabee"}, {"run", {{"task", "SST-2"}}}};
  const std::string card = model_card(card_model(), facts);
  EXPECT_THAT(card, testing::StartsWith("---\n# license: …"));
  EXPECT_THAT(card, HasSubstr("library_name: exeunt\npipeline_tag: text-classification\n"));
  EXPECT_THAT(card, HasSubstr("    - type: accuracy\n      value: 0.8750\n"));
  EXPECT_THAT(card, HasSubstr("      name: \"SST-2\"\n"));
  EXPECT_THAT(card, HasSubstr("A bert with 4 layers (hidden size 8"));
  EXPECT_THAT(card, HasSubstr("Labels: `no`, `may|be`, `**yes**`."));
  EXPECT_THAT(card, HasSubstr("| 2 | cls | 2 | 62.50 |"));
  EXPECT_THAT(card, HasSubstr("**fp32** (default): `entropy:0.2` over the exits 2, 4. Promise: at most 1 % of answers "
                              "to distinct texts differ from "
                              "the fp32 model at full depth, confidence 95 % (ltt-binomial, 2000 texts"));
  EXPECT_THAT(card, HasSubstr("| 2 % | `entropy:0.4` | 25 % |"));
  EXPECT_THAT(card, HasSubstr("Answers are promised, scores are not"));
  EXPECT_THAT(card, HasSubstr("Recipe `pabee` on SST-2"));
}

TEST(ModelCard, SaysThatExit0ReadsNoRows) {
  const ModelSpec spec = small_spec();
  const Checkpoint model = make_model(spec, with_exit_0(spec, own_exits(spec)));
  const std::string card = model_card(model, {.name = "m"});
  EXPECT_THAT(card, HasSubstr("| 0 | hashed n-grams, before the first layer | 0 |"));
  EXPECT_THAT(card, HasSubstr("| 1 | cls | "));
}

// Whole cards: of every reader and problem, with all facts and with none.
TEST(ModelCard, IsWrittenAsStored) {
  CardFacts all{.name = "sst2", .policy = card_policy(), .results = card_results()};
  all.recipe = {{"name", "pabee"},
                {"run", {{"task", "SST-2"}, {"seed", 42}, {"max_length", 128}, {"rows", 900}}},
                {"provenance", {{"tool", "0.1.0"}, {"created", "2026-01-02T03:04:05Z"}}}};
  all.attached = {{"format", "exeunt.attach/1"},
                  {"weights", std::string(64, 'd')},
                  {"texts", std::string(64, 'e')},
                  {"rows", 5000},
                  {"learned", 3000},
                  {"chosen", 400},
                  {"certified", 1200},
                  {"reported", 400},
                  {"max_length", 64},
                  {"texts_per_row", 2},
                  {"engine", "cpu/any"},
                  {"precision", "fp32"}};
  all.author = "license: mit\n";
  all.origin = "# Theirs\nWords.\n";
  std::string cards = model_card(card_model(), all);
  all.promises = {"none (certified with another tokenizer)"};
  all.recipe = {};
  all.reader = CardFor::transformers;
  cards += model_card(card_model(Family::roberta), all);
  all.attached = {};
  all.policy.reset();
  all.reader = CardFor::onnx;
  cards += model_card(card_model(), all);
  const ModelSpec spec = tiny::spec(Family::bert);
  ExitLayout several = tiny::own_heads(spec), values = several;
  several.problem = Problem::multi_label;
  several.labels = {"a", "b", "c"};
  several.logit_thresholds = {0, 1, -1};
  cards += model_card({spec, several, tiny::tensors(spec, several, DType::f32)}, {.name = "tags"});
  values.problem = Problem::regression;
  values.outputs = 1;
  values.labels.clear();
  values.range = {0, 5};
  cards += model_card({spec, values, tiny::tensors(spec, values, DType::f32)}, {.name = "values"});
  cards += model_card({spec, {}, tiny::tensors(spec, {}, DType::f32)}, {.name = "bare"});
  expect_golden("cards.md", cards);
}

TEST(ModelCard, OmitsUnknownFields) {
  const std::string card = model_card(card_model(), {.name = "x"});
  EXPECT_THAT(card, testing::Not(HasSubstr("scores are not")));
  EXPECT_THAT(card, HasSubstr("No exit policy is stored"));
  EXPECT_THAT(card, Not(HasSubstr("model-index")));
  EXPECT_THAT(card, Not(HasSubstr("## Training")));
  EXPECT_THAT(card, HasSubstr("| exit after layer | reads | MFLOPs |\n"));
  EXPECT_THAT(card, Not(HasSubstr("\nlicense:"))) << "that is the author's";
}

TEST(ModelCard, ShowsHowToLoadTheFolder) {
  EXPECT_THAT(model_card(card_model(), {.reader = CardFor::transformers, .name = "x"}),
              HasSubstr("library_name: transformers\n"));
  EXPECT_THAT(model_card(card_model(), {.reader = CardFor::onnx, .name = "x"}), HasSubstr("`all_exits.onnx` gives"));
}

TEST(ModelCard, ToleratesHostileFiles) {
  for (const char* text : {"[]", "{\"exits\": 3}", "{\"exits\": [1, {\"layer\": \"x\"}, {}]}", "null"}) {
    const std::string card =
        model_card(card_model(), {.name = "x", .results = Json::parse(text), .recipe = Json::parse(text)});
    EXPECT_THAT(card, Not(HasSubstr("model-index"))) << text;
  }
}

TEST(ModelCard, IsRewrittenUntilEditedByHand) {
  const Scratch scratch;
  const Checkpoint made = card_model();
  scratch.write("all_results.json", card_results().dump());
  scratch.write("policy.json", policy_file_text(card_policy()));
  write_card(scratch.path(), made, card_facts(scratch.path(), scratch.path()));
  const std::string first = read_text(scratch.path() / "README.md");
  EXPECT_THAT(first, HasSubstr("62.50"));
  EXPECT_THAT(first, HasSubstr("entropy:0.4"));
  EXPECT_THAT(first, HasSubstr("# " + scratch.path().filename().string()));

  std::filesystem::remove(scratch.path() / "policy.json");
  write_card(scratch.path(), made, card_facts(scratch.path() / "", scratch.path()));
  EXPECT_THAT(read_text(scratch.path() / "README.md"), HasSubstr("No exit policy is stored"));

  scratch.write("README.md", "my own words\n");
  write_card(scratch.path(), made, card_facts(scratch.path(), scratch.path()));
  EXPECT_EQ(read_text(scratch.path() / "README.md"), "my own words\n");
}

TEST(ModelCard, EscapesMarkupInNames) {
  const ModelSpec spec = tiny::spec(Family::bert);
  ExitLayout exits = tiny::own_heads(spec);
  exits.labels = {"a, b", "`c`", "d\ne"};
  const std::string card = model_card({spec, exits, tiny::tensors(spec, exits, DType::f32)}, {.name = "my data"});
  EXPECT_THAT(card, HasSubstr("Labels: `a, b`, `` `c` ``, `d e`."));
  EXPECT_THAT(card, HasSubstr("\nexeunt predict 'my data' texts.txt\nexeunt serve 'my data'\n"));
}

TEST(ModelCard, ContinuesTheCardOfItsSource) {
  const Scratch scratch;
  const Checkpoint made = card_model();
  std::filesystem::create_directory(scratch.path() / "out");
  scratch.write("README.md",
                "---\r\nlicense: apache-2.0\r\ntags:\r\n- sentiment\r\ndatasets:\r\n- sst2\r\n---\r\n\r\n# "
                "Theirs\r\nWords \xFF.\r\n");
  write_card(scratch.path() / "out", made, card_facts(scratch.path() / "out", scratch.path()));
  const std::string first = read_text(scratch.path() / "out" / "README.md");
  EXPECT_THAT(first, testing::StartsWith("---\n# base_model: …     the model this one was trained from\n"
                                         "license: apache-2.0\ndatasets:\n- sst2\nlibrary_name: exeunt\n"));
  EXPECT_THAT(first, Not(HasSubstr("sentiment")));
  EXPECT_THAT(first, HasSubstr(std::string(kOriginMark) + "\n\n# Theirs\nWords \xEF\xBF\xBD.\n"));

  // Written anew it says the same, and so does what is made of it.
  write_card(scratch.path() / "out", made, card_facts(scratch.path() / "out", scratch.path() / "out"));
  EXPECT_EQ(read_text(scratch.path() / "out" / "README.md"), first);
}

TEST(ModelCard, BareBackboneHasShortCard) {
  const ModelSpec spec = tiny::spec(Family::albert);
  const std::string card = model_card({spec, {}, tiny::tensors(spec, {}, DType::f32)}, {.name = "x"});
  EXPECT_THAT(card, HasSubstr("without heads"));
  EXPECT_THAT(card, Not(HasSubstr("pipeline_tag")));
}

}  // namespace
}  // namespace exeunt
