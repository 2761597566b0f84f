// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/files.h"
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/tokenizer_json.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = SentencePiece::Kind;

SpieceModel albert() {
  SpieceModel model;
  model.pieces = {{"<pad>", 0, Kind::control},  {"<unk>", 0, Kind::unknown},  {"[CLS]", 0, Kind::control},
                  {"[SEP]", 0, Kind::control},  {"[MASK]", 0, Kind::control}, {"-", 0, Kind::user_defined},
                  {"▁", -2, Kind::normal},      {"▁well", -4, Kind::normal},  {"known", -5, Kind::normal},
                  {"▁known", -5, Kind::normal}, {"▁1,", -3, Kind::normal},    {"▁1", -6, Kind::normal},
                  {",", -3, Kind::normal},      {"\"", -3, Kind::normal},     {"e", -3, Kind::normal},
                  {"▁E", -3, Kind::normal},     {"é", -3, Kind::normal}};
  model.unknown = 1;
  return model;
}

std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, std::nullopt, {.max_length = 512, .special_tokens = false}).ids;
}

// Expected values: the npm package tokenizers, with the tokenizer.json of tests/system/parity/spiece.mjs for these
// pieces.
TEST(UnigramTokenizer, ReadsAlbertAsTransformers) {
  const auto tokenizer = make_unigram_tokenizer(albert(), {}, "f");
  const Encoding out = tokenizer->encode("Well-known  [MASK]", "É", {});
  EXPECT_THAT(out.ids, ElementsAre(2, 7, 5, 9, 4, 3, 6, 14, 3));
  EXPECT_THAT(out.types, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 0), Offset(0, 4), Offset(4, 5), Offset(5, 10), Offset(12, 18),
                                       Offset(0, 0), Offset(0, 1), Offset(0, 1), Offset(0, 0)));
  EXPECT_EQ(tokenizer->vocabulary(), 17);
  EXPECT_EQ(tokenizer->family(), "unigram");
  EXPECT_EQ(tokenizer->token(7), "▁well");
  EXPECT_EQ(tokenizer->id("known"), 8);
}

TEST(UnigramTokenizer, UserDefinedPieceStartsNewSegment) {
  const auto tokenizer = make_unigram_tokenizer(albert(), {}, "f");
  EXPECT_THAT(ids(*tokenizer, "-known"), ElementsAre(5, 9));
  EXPECT_THAT(ids(*tokenizer, "well- known"), ElementsAre(7, 5, 9));
  EXPECT_THAT(ids(*tokenizer, "1,"), ElementsAre(10));  // scores are the file's, also where a comma follows a digit
}

TEST(UnigramTokenizer, QuotesOfTwoCharactersAreOne) {
  const auto tokenizer = make_unigram_tokenizer(albert(), {}, "f");
  EXPECT_THAT(ids(*tokenizer, "``''"), ElementsAre(6, 13, 13));
}

TEST(UnigramTokenizer, ConfigurationKeepsCaseAndAccentsAndNamesTokens) {
  TokenizerConfig config;
  config.do_lower_case = false;
  config.keep_accents = true;
  config.cls_token = "<pad>";
  AddedToken mask;
  mask.content = "[MASK]";
  mask.lstrip = true;
  mask.normalized = false;
  config.added = {mask};
  const auto tokenizer = make_unigram_tokenizer(albert(), config, "f");
  EXPECT_THAT(ids(*tokenizer, "E"), ElementsAre(15));
  EXPECT_THAT(ids(*tokenizer, "é"), ElementsAre(6, 16));
  EXPECT_EQ(tokenizer->encode("", std::nullopt, {}).ids.front(), 0);
  const Encoding out = tokenizer->encode("E [MASK]", std::nullopt, {.max_length = 512, .special_tokens = false});
  EXPECT_EQ(out.offsets.back(), Offset(1, 8));  // the mask takes the blank before it along
}

TEST(UnigramTokenizer, RejectsModelWithoutSpecialTokens) {
  SpieceModel model = albert();
  model.pieces[2].text = "[cls]";
  EXPECT_THAT(error_of([&] { (void)make_unigram_tokenizer(model, {}, "f"); }).what(),
              HasSubstr("f: the model has no piece '[CLS]', a special token"));
  model = albert();
  model.charsmap = "abc";
  EXPECT_THAT(error_of([&] { (void)make_unigram_tokenizer(model, {}, "f"); }).what(),
              HasSubstr("f: precompiled_charsmap: got 3 bytes"));
}

TEST(UnigramTokenizer, ErrorsNameFiles) {
  const Scratch folder;
  const auto path = folder.write("spiece.model", "\x0a\x05");
  EXPECT_THAT(error_of([&] { (void)read_unigram_tokenizer(path, {}, SpieceReader::tokenizers); }).what(),
              HasSubstr("spiece.model: the protocol buffer is malformed or truncated at byte 0"));
  const std::filesystem::path cases = std::filesystem::path(EXEUNT_TEST_DATA) / "text/cases/unigram";
  std::filesystem::copy_file(cases / "spiece.model", path, std::filesystem::copy_options::overwrite_existing);
  folder.write("spiece.vocab", "<pad>\t0\n");
  EXPECT_THAT(error_of([&] { (void)read_unigram_tokenizer(path, {}, SpieceReader::tokenizers); }).what(),
              HasSubstr("spiece.vocab: got 1 lines, want"));
  EXPECT_THAT(error_of([&] {
                (void)read_unigram_tokenizer(folder.path() / "none.model", {}, SpieceReader::tokenizers);
              }).what(),
              HasSubstr("none.model"));
}

std::string unigram_json_error(std::string_view model, std::string_view pre = "null") {
  const std::string text = fmt::format(R"({{"pre_tokenizer":{},"model":{}}})", pre, model);
  const Error error = error_of([&] { (void)make_unigram_tokenizer(parse_tokenizer_json(text, "f")); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error.what();
}

TEST(UnigramTokenizer, NamesEveryWrongField) {
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0})"), HasSubstr("vocab"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[]})"),
              HasSubstr("f: model: vocab: got a list"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[["a"]]})"), HasSubstr("piece 0: got a list"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[["a","b"]]})"),
              HasSubstr("want a piece and its score"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[["a",0],["a",1]]})"),
              HasSubstr("duplicate token 'a'"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":1,"vocab":[["a",0]]})"), HasSubstr("'unk_id': got 1"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":null,"vocab":[["a",0]]})"), HasSubstr("unk_id"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[["a",0]],"byte_falback":true})"),
              HasSubstr("byte_falback"));
  EXPECT_THAT(
      unigram_json_error(fmt::format(R"({{"type":"Unigram","unk_id":0,"vocab":[["{}",0]]}})", std::string(1025, 'a'))),
      HasSubstr("piece 0: got 1025 bytes, want at most 1024"));
  EXPECT_THAT(unigram_json_error(R"({"type":"Unigram","unk_id":0,"vocab":[["a",0]]})", R"({"type":"Digits"})"),
              HasSubstr("f: pre_tokenizer"));
}

TEST(UnigramTokenizer, ReplacesInvalidUtf8) {
  const auto tokenizer = make_unigram_tokenizer(albert(), {}, "f");
  EXPECT_EQ(ids(*tokenizer, "well\xFF\xC3 known\xE2\x96"), ids(*tokenizer, "well\uFFFD\uFFFD known\uFFFD"));
}

// XLM-RoBERTa's: 250,002 pieces, of which the four special ones come first, and two separators between texts.
TEST(UnigramTokenizer, TakesAQuarterOfAMillionPieces) {
  std::string pieces = R"(["<s>",0],["<pad>",0],["</s>",0],["<unk>",0],["▁the",-3.5],["▁",-4])";
  for (int i = 6; i < 250001; ++i) pieces += fmt::format(R"(,["▁piece{}",-{}.25])", i, 5 + i % 20);
  const std::string json = fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{{"id":250001,"content":"<mask>",
          "single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":true}}],"normalizer":null,
          "pre_tokenizer":{{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}},
          "post_processor":{{"type":"TemplateProcessing",
            "single":[{{"SpecialToken":{{"id":"<s>","type_id":0}}}},{{"Sequence":{{"id":"A","type_id":0}}}},
                      {{"SpecialToken":{{"id":"</s>","type_id":0}}}}],
            "pair":[{{"SpecialToken":{{"id":"<s>","type_id":0}}}},{{"Sequence":{{"id":"A","type_id":0}}}},
                    {{"SpecialToken":{{"id":"</s>","type_id":0}}}},{{"SpecialToken":{{"id":"</s>","type_id":0}}}},
                    {{"Sequence":{{"id":"B","type_id":0}}}},{{"SpecialToken":{{"id":"</s>","type_id":0}}}}],
            "special_tokens":{{"<s>":{{"id":"<s>","ids":[0],"tokens":["<s>"]}},
                               "</s>":{{"id":"</s>","ids":[2],"tokens":["</s>"]}}}}}},
          "decoder":null,"model":{{"type":"Unigram","unk_id":3,"vocab":[{},["<mask>",0]],"byte_fallback":false}}}})",
      pieces);
  const auto tokenizer = make_unigram_tokenizer(parse_tokenizer_json(json, "f"));
  EXPECT_EQ(tokenizer->vocabulary(), 250002);
  const Encoding out = tokenizer->encode("the piece249999 <mask>", "the", {});
  EXPECT_THAT(out.ids, ElementsAre(0, 4, 249999, 250001, 2, 2, 4, 2));
  EXPECT_THAT(out.types, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace exeunt
