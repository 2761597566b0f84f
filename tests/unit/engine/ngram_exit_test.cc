// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/ngram_exit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/engine/engine.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TokenPieces pieces_of(const std::vector<std::string>& tokens) {
  TokenPieces out{.bytes = {}, .begins = {0}};
  for (const std::string& token : tokens) {
    out.bytes.insert(out.bytes.end(), token.begin(), token.end());
    out.begins.push_back(static_cast<int32_t>(out.bytes.size()));
  }
  return out;
}

std::vector<uint32_t> features(const TokenPieces& pieces, int bits, const std::vector<int32_t>& ids) {
  std::vector<uint32_t> out;
  NgramFeatures(pieces.bytes, pieces.begins, bits).each(ids, [&](uint32_t place) { out.push_back(place); });
  return out;
}

// Written by scripts/golden/ngrams.py, which knows nothing of the C++ source.
TEST(NgramFeatures, MatchIndependentImplementation) {
  const Json golden = read_json(ReadPath("tests/fixtures/golden/ngrams.json"));
  const TokenPieces pieces = pieces_of(golden.at("tokens").get<std::vector<std::string>>());
  ASSERT_GE(golden.at("texts").size(), 5U);
  for (const Json& text : golden.at("texts")) {
    const auto ids = text.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(features(pieces, text.at("bits").get<int>(), ids), text.at("features").get<std::vector<uint32_t>>())
        << text.dump();
  }
}

TEST(NgramFeatures, SecondTextHasFeaturesOfItsOwn) {
  const TokenPieces pieces = pieces_of({"", " a"});
  const std::vector<uint32_t> all = features(pieces, 20, {0, 1, 0, 1, 0});
  ASSERT_EQ(all.size(), 4U);  // twice the token and "<a>"
  EXPECT_NE(all[0], all[2]);
  EXPECT_NE(all[1], all[3]);
}

TEST(NgramFeatures, LongWordHasBoundedFeatures) {
  const TokenPieces pieces = pieces_of({"", " " + std::string(100000, 'a')});
  EXPECT_LT(features(pieces, 10, {0, 1, 0}).size(), 200U);
}

// The text of each token, a blank first where it begins a word.
std::vector<std::string> texts_of(const TokenPieces& pieces) {
  std::vector<std::string> out;
  for (size_t id = 0; id + 1 < pieces.begins.size(); ++id)
    out.emplace_back(pieces.bytes.begin() + pieces.begins[id], pieces.bytes.begin() + pieces.begins[id + 1]);
  return out;
}

TEST(TokenPieces, BeginWordsAsTheirTokenizerMarksThem) {
  const Scratch wordpiece, unigram, bpe;
  wordpiece.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhi\n##gh\n##\n");
  EXPECT_THAT(texts_of(token_pieces(*load_tokenizer(wordpiece.path()), 8)),
              ElementsAre(" [PAD]", " [UNK]", "", "", " hi", "gh", " ##", ""));
  unigram.write("tokenizer.json",
                R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["▁hi",-1],["gh",-2],["▁",-3]]},
                                     "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}})");
  EXPECT_THAT(texts_of(token_pieces(*load_tokenizer(unigram.path()), 4)), ElementsAre("?", " hi", "gh", "▁"));
  bpe.write("vocab.json", R"({"<s>":0,"</s>":1,"<unk>":2,"h":3,"i":4,"Ġ":5,"hi":6,"Ġhi":7})");
  bpe.write("merges.txt", "#version: 0.2\nh i\nĠ hi\n");
  EXPECT_THAT(texts_of(token_pieces(*load_tokenizer(bpe.path()), 8)),
              ElementsAre("", "", "<unk>", "h", "i", "Ġ", "hi", " hi"));
}

TEST(NgramExit, AddsRowsOverRootOfTheirNumberToBias) {
  ModelSpec spec = small_spec();
  const ExitLayout layout = with_exit_0(spec, own_exits(spec, 2), 1, 2);
  const Checkpoint model =
      make_model(spec, layout, {{"exits.ngrams.table", {1, 2, 1, 2}}, {"exits.ngrams.bias", {0.5F, -0.5F}}});
  std::vector<float> logits(2);
  const std::vector<int32_t> ids = {0, 2, 0};  // the token, "<cx", "cx>" and "<cx>"
  NgramExit(model).run(ids, logits.data());
  EXPECT_THAT(logits, ElementsAre(0.5F + 4 / 2.0F, -0.5F + 8 / 2.0F));
}

TEST(NgramExit, MapsNarrowRowsToOutputs) {
  ModelSpec spec = small_spec();
  const ExitLayout layout = with_exit_0(spec, own_exits(spec, 3), 1, 1);
  const Checkpoint model = make_model(
      spec, layout,
      {{"exits.ngrams.table", {3, 3}}, {"exits.ngrams.output", {1, 0, -1}}, {"exits.ngrams.bias", {0, 1, 2}}});
  std::vector<float> logits(3);
  const std::vector<int32_t> ids = {0, 2, 0};
  NgramExit(model).run(ids, logits.data());
  EXPECT_THAT(logits, ElementsAre(6, 1, -4));
}

TEST(NgramExit, AnswersTextWithoutTokensByBias) {
  ModelSpec spec = small_spec();
  const Checkpoint model =
      make_model(spec, with_exit_0(spec, own_exits(spec, 2), 1, 2), {{"exits.ngrams.bias", {0.5F, -0.5F}}});
  std::vector<float> logits(2);
  const std::vector<int32_t> ids = {0, 0};
  NgramExit(model).run(ids, logits.data());
  EXPECT_THAT(logits, ElementsAre(0.5F, -0.5F));
}

std::string refusal(const Checkpoint& model) {
  return error_of([&] { const NgramExit made(model); }).what();
}

TEST(NgramExit, RejectsNumbersThatAreNotFinite) {
  ModelSpec spec = small_spec();
  const ExitLayout layout = with_exit_0(spec, own_exits(spec, 2), 1, 1);
  EXPECT_THAT(refusal(make_model(spec, layout, {{"exits.ngrams.table", {1, INFINITY}}})),
              HasSubstr("tensor 'exits.ngrams.table': element 1: got inf"));
  EXPECT_THAT(refusal(make_model(spec, layout, {{"exits.ngrams.bias", {NAN, 0}}})), HasSubstr("exits.ngrams.bias"));
  EXPECT_THAT(refusal(make_model(spec, layout, {{"exits.ngrams.output", {0, NAN}}})), HasSubstr("exits.ngrams.output"));
}

TEST(NgramExit, RejectsPiecesOutOfOrder) {
  ModelSpec spec = small_spec();
  const ExitLayout layout = with_exit_0(spec, own_exits(spec, 2), 1, 1);
  for (const size_t broken : {size_t{0}, size_t{5}, static_cast<size_t>(spec.vocab)}) {
    const Checkpoint sound = make_model(spec, layout);
    TensorSet set = sound.tensors();
    std::vector<int32_t> begins = small_pieces(spec.vocab).begins;
    begins[broken] = 1 << 20;
    set.tensors["exits.ngrams.begins"] = view_of(DType::i32, begins);
    EXPECT_THAT(refusal({spec, layout, set}), HasSubstr("exits.ngrams.begins")) << broken;
  }
}

TEST(NgramExit, RejectsTensorsThatDoNotFit) {
  const ModelSpec spec = small_spec();
  const ExitLayout layout = with_exit_0(spec, own_exits(spec), 6, 2);
  const Checkpoint sound = make_model(spec, layout);
  const auto complaint = [&](const std::string& name, DType dtype, std::vector<int64_t> shape) {
    TensorSet set = sound.tensors();
    const std::vector<std::byte> bytes(4 * (size_t{1} << 8));
    set.tensors[name] = {.dtype = dtype, .shape = shape, .strides = {}, .bytes = bytes};
    if (shape.empty()) set.tensors.erase(name);
    return std::string(error_of([&] { (void)Checkpoint(spec, layout, set); }).what());
  };
  EXPECT_THAT(complaint("exits.ngrams.table", DType::bf16, {32, 2}),
              HasSubstr("tensor 'exits.ngrams.table': got shape [32, 2], want [64, 2]"));
  EXPECT_THAT(complaint("exits.ngrams.table", DType::bf16, {64, 3}), HasSubstr("want [64, 2]"));
  EXPECT_THAT(complaint("exits.ngrams.table", DType::f32, {64, 2}), HasSubstr("got F32, want BF16"));
  EXPECT_THAT(complaint("exits.ngrams.output", DType::f32, {4, 2}), HasSubstr("got shape [4, 2], want [3, 2]"));
  EXPECT_THAT(complaint("exits.ngrams.bias", DType::f32, {4}), HasSubstr("got shape [4], want [3]"));
  EXPECT_THAT(complaint("exits.ngrams.begins", DType::i32, {32}), HasSubstr("got shape [32], want [31]"));
  EXPECT_THAT(complaint("exits.ngrams.pieces", DType::u8, {}), HasSubstr("'exits.ngrams.pieces' is missing"));
}

TEST(ExitZero, AnswersWithoutRunningALayer) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, with_exit_0(spec, own_exits(spec))), {.threads = 1});
  const Encoding text = random_text(spec, 7);
  const Answer answer = engine.answer({&text, 1}, {.max_layers = 0}).front();
  EXPECT_EQ(answer.exit, 0);
  EXPECT_EQ(answer.layer, 0);
  EXPECT_EQ(answer.layers_run, 0);
  EXPECT_EQ(answer.tokens, 7);
  EXPECT_EQ(answer.stop_reason, StopReason::max_layers);
  EXPECT_EQ(answer.logits.size(), 3U);
}

}  // namespace
}  // namespace exeunt
