// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/tokenizer_json.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kByteVocab =
    R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"h":4,"i":5,"Ġ":6,"hi":7,"Ġh":8,"Ġhi":9,"Ã":10,"©":11,"<mask>":12})";
constexpr std::string_view kMerges = "#version: 0.2\nh i\nĠ h\nĠ hi\n";

std::unique_ptr<const Tokenizer> make(std::string_view vocab, std::string_view merges,
                                      const TokenizerConfig& config = {}) {
  return make_byte_bpe_tokenizer({vocab, merges, "vocab.json", "merges.txt"}, config);
}

TEST(ByteBpeTokenizer, ReadsRobertasFiles) {
  const auto tokenizer = make(kByteVocab, kMerges);
  const Encoding out = tokenizer->encode("hi hi <mask>", "hié", {});
  EXPECT_THAT(out.ids, ElementsAre(0, 7, 9, 6, 12, 2, 2, 7, 10, 11, 2));
  EXPECT_THAT(out.types, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(out.offsets,
              ElementsAre(Offset(0, 0), Offset(0, 2), Offset(3, 5), Offset(6, 6), Offset(6, 12), Offset(0, 0),
                          Offset(0, 0), Offset(0, 2), Offset(2, 3), Offset(2, 3), Offset(0, 0)));
  EXPECT_EQ(tokenizer->vocabulary(), 13);
  EXPECT_EQ(tokenizer->family(), "bpe");
  EXPECT_EQ(tokenizer->token(9), "Ġhi");
  EXPECT_EQ(tokenizer->id("Ġhi"), 9);
}

TEST(ByteBpeTokenizer, AddsPrefixSpaceWhenConfigured) {
  TokenizerConfig config;
  config.add_prefix_space = true;
  const Encoding out = make(kByteVocab, kMerges, config)->encode("hi", std::nullopt, {});
  EXPECT_THAT(out.ids, ElementsAre(0, 9, 2));
  EXPECT_EQ(out.offsets[1], Offset(0, 2));
}

TEST(ByteBpeTokenizer, AcceptsCrLfAndFinalBlankLine) {
  EXPECT_THAT(make(kByteVocab, "#version: 0.2\r\nh i\r\n\n\n")->encode("hi", std::nullopt, {}).ids,
              ElementsAre(0, 7, 2));
  EXPECT_THAT(make(kByteVocab, "")->encode("hi", std::nullopt, {}).ids, ElementsAre(0, 4, 5, 2));
}

std::string files_error(std::string_view vocab, std::string_view merges, const TokenizerConfig& config = {}) {
  const Error error = error_of([&] { (void)make(vocab, merges, config); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error.what();
}

TEST(ByteBpeTokenizer, RejectsDamagedFilesByLine) {
  EXPECT_THAT(files_error("{", kMerges), HasSubstr("vocab.json: no valid JSON at line 1 column 2"));
  EXPECT_THAT(files_error("[]", kMerges), HasSubstr("vocab.json: got a list"));
  EXPECT_THAT(files_error(R"({"<s>":0,"</s>":0})", ""), HasSubstr("vocab.json: id 0 belongs to both"));
  EXPECT_THAT(files_error(R"({"<s>":0})", ""), HasSubstr("vocab.json: '</s>' is not in the vocabulary"));
  EXPECT_THAT(files_error(kByteVocab, "h i\nh x\n"), HasSubstr("merges.txt: line 2: 'x' is not in the vocabulary"));
  EXPECT_THAT(files_error(kByteVocab, "i h\n"), HasSubstr("merges.txt: line 1: 'ih' is not in the vocabulary"));
  EXPECT_THAT(files_error(kByteVocab, "h i i\n"), HasSubstr("merges.txt: line 1: got 'h i i', want two tokens"));
  EXPECT_THAT(files_error(kByteVocab, "h i\n\nh i\n"), HasSubstr("merges.txt: line 2: got ''"));
  EXPECT_THAT(files_error(kByteVocab, "h \n"), HasSubstr("merges.txt: line 1: a side of the merge is empty"));
  EXPECT_THAT(files_error(kByteVocab, "h i\nh \xFF\n"), HasSubstr("merges.txt: line 2: the line is not UTF-8"));
  TokenizerConfig config;
  config.cls_token = "[CLS]";
  EXPECT_THAT(files_error(kByteVocab, kMerges, config), HasSubstr("'[CLS]' is not in the vocabulary"));
}

std::string json_of(std::string_view more, std::string_view pre = R"({"type":"ByteLevel","add_prefix_space":false})") {
  return fmt::format(R"({{"pre_tokenizer":{},"model":{{"type":"BPE","vocab":{},{}}}}})", pre, kByteVocab, more);
}

std::string bpe_json_error(std::string_view more, std::string_view pre = R"({"type":"ByteLevel"})") {
  return error_of([&] { (void)make_byte_bpe_tokenizer(parse_tokenizer_json(json_of(more, pre), "f")); }).what();
}

TEST(ByteBpeTokenizer, MergesAreTextsOrPairs) {
  for (const char* merges : {R"("merges":["h i","Ġ hi"])", R"("merges":[["h","i"],["Ġ","hi"]])"}) {
    const auto tokenizer = make_byte_bpe_tokenizer(parse_tokenizer_json(json_of(merges), "f"));
    EXPECT_THAT(tokenizer->encode("hi hi", std::nullopt, {}).ids, ElementsAre(7, 9));
  }
}

TEST(ByteBpeTokenizer, RejectsMergeOutsideVocabularyWithoutWordSplit) {
  const std::string json = json_of(R"("merges":["h i","i Ġ"],"dropout":null,"unk_token":null)",
                                   R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,
                                       "trim_offsets":true,"use_regex":false}]})");
  EXPECT_THAT(error_of([&] { (void)make_byte_bpe_tokenizer(parse_tokenizer_json(json, "f")); }).what(),
              HasSubstr("f: model: merges: merge 1: 'iĠ' is not in the vocabulary"));
}

TEST(ByteBpeTokenizer, NamesEveryWrongField) {
  EXPECT_THAT(bpe_json_error(R"("merges":{})"), HasSubstr("f: model: merges: got an object"));
  EXPECT_THAT(bpe_json_error(R"("merges":[1])"), HasSubstr("merge 0: got 1, want two tokens"));
  EXPECT_THAT(bpe_json_error(R"("merges":[["h"]])"), HasSubstr("merge 0: got a list, want two tokens"));
  EXPECT_THAT(bpe_json_error(R"("merges":[["h","x"]])"), HasSubstr("merge 0: 'x' is not in the vocabulary"));
  EXPECT_THAT(bpe_json_error(R"("merges":[],"unk_token":"[UNK]")"), HasSubstr("'[UNK]' is not in the vocabulary"));
  EXPECT_THAT(bpe_json_error(R"("merges":[],"dropout":0.1)"), HasSubstr("field 'dropout': got 0.1, want none"));
  EXPECT_THAT(bpe_json_error(R"("merges":[],"end_of_word_suffix":"</w>")"), HasSubstr("got '</w>', want none"));
  EXPECT_THAT(bpe_json_error(R"("merges":[],"continuing_subword_prefix":"##")"), HasSubstr("got '##', want none"));
  EXPECT_THAT(bpe_json_error(R"("merges":[],"fuse_unknown":true)"), HasSubstr("fuse_unknown"));
  EXPECT_THAT(bpe_json_error(R"("merges":[])", "null"), HasSubstr("f: pre_tokenizer: got none, want ByteLevel"));
  EXPECT_THAT(bpe_json_error(R"("merges":[])", R"({"type":"Whitespace"})"), HasSubstr("Whitespace"));
  EXPECT_THAT(bpe_json_error(R"("merges":[])", R"({"type":"Sequence","pretokenizers":[]})"),
              HasSubstr("ByteLevel alone"));
}

TEST(ByteBpeTokenizer, ReplacesInvalidUtf8) {
  const auto tokenizer = make(kByteVocab, kMerges);
  EXPECT_EQ(tokenizer->encode("hi\xC3 hi", std::nullopt, {}).ids,
            tokenizer->encode("hi\uFFFD hi", std::nullopt, {}).ids);
}

}  // namespace
}  // namespace exeunt
