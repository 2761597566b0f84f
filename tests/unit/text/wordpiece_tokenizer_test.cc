// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exeunt/text/tokenizer_json.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n,\n中\na\n";

std::unique_ptr<const Tokenizer> from_vocab(std::string_view vocab, const TokenizerConfig& config = {}) {
  const Scratch folder;
  return read_wordpiece_tokenizer(folder.write("vocab.txt", vocab), config);
}

std::string json_with(std::string_view model, std::string_view more = "") {
  return fmt::format(
      R"({{"version":"1.0","added_tokens":[],"pre_tokenizer":{{"type":"BertPreTokenizer"}},{}"model":{}}})", more,
      model);
}

std::unique_ptr<const Tokenizer> from_json(std::string_view text) {
  return make_wordpiece_tokenizer(parse_tokenizer_json(text, "tokenizer.json"));
}

std::string message_of(std::string_view vocab) {
  return error_of([&] { (void)from_vocab(vocab); }).what();
}

TEST(WordPieceTokenizer, ReadsVocabTxtAsBertUncased) {
  const auto tokenizer = from_vocab(kVocab);
  const Encoding out = tokenizer->encode("Héllo, WORLDS 中[MASK]", std::nullopt, {});
  EXPECT_THAT(out.ids, ElementsAre(2, 5, 8, 6, 7, 9, 4, 3));
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 0), Offset(0, 5), Offset(5, 6), Offset(7, 12), Offset(12, 13),
                                       Offset(14, 15), Offset(15, 21), Offset(0, 0)));
  EXPECT_EQ(tokenizer->vocabulary(), 11);
  EXPECT_EQ(tokenizer->family(), "wordpiece");
  EXPECT_EQ(tokenizer->token(7), "##s");
  EXPECT_EQ(tokenizer->id("中"), 9);
}

TEST(WordPieceTokenizer, PairsGetTypesAndTruncateLongerText) {
  const auto tokenizer = from_vocab(kVocab);
  const Encoding out = tokenizer->encode("hello hello hello", "a", {.max_length = 6});
  EXPECT_THAT(out.ids, ElementsAre(2, 5, 5, 3, 10, 3));
  EXPECT_THAT(out.types, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_TRUE(out.truncated);
}

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// A word of `size` pieces.
std::string word_of(int size) {
  return repeat("ba", size / 2) + (size % 2 != 0 ? "b" : "");
}

// Which text is the longer one decides who gets the odd place. The oracle stops behind the word that brings a text to
// max_length; so a second text of known size tells how many tokens of the first were counted.
int counted(const Tokenizer& tokenizer, const std::string& first) {
  constexpr int kLength = 12;
  for (int size = 1;; ++size) {
    const std::string second = repeat("b ", kLength - 1) + word_of(size);
    const Encoding out = tokenizer.encode(first, second, {.max_length = kLength});
    const auto of_first = std::count(out.types.begin(), out.types.end(), 0);
    if (of_first - 2 <= static_cast<ptrdiff_t>(out.ids.size()) - of_first - 1) return kLength - 1 + size;
  }
}

// Counts were read off the oracle.
TEST(WordPieceTokenizer, StopsCountingTokensBeyondMaxLength) {
  const auto tokenizer = from_vocab("[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n");
  const std::string a = "a ";
  const std::string mask = "[MASK]";
  EXPECT_EQ(counted(*tokenizer, repeat(a, 12)), 12);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 20)), 12);
  EXPECT_EQ(counted(*tokenizer, repeat(word_of(5) + " ", 4)), 15);
  EXPECT_EQ(counted(*tokenizer, repeat(mask, 30)), 30);
  EXPECT_EQ(counted(*tokenizer, repeat(mask, 30) + " a a a a a"), 31);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 6) + repeat(mask, 8) + repeat(a, 10)), 15);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 6) + repeat(mask, 4) + repeat(a, 10)), 12);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 11) + mask + repeat(a, 9)), 13);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 11) + repeat(mask, 5) + repeat(a, 9)), 17);
  EXPECT_EQ(counted(*tokenizer, repeat(a, 12) + repeat(mask, 5)), 12);
  EXPECT_EQ(counted(*tokenizer, repeat(mask, 5) + repeat(a, 7) + repeat(mask, 5)), 12);
  EXPECT_EQ(counted(*tokenizer, repeat(mask, 12) + "a"), 13);
  EXPECT_EQ(counted(*tokenizer, repeat(mask, 11) + "a" + repeat(mask, 4)), 12);
}

TEST(WordPieceTokenizer, ReportsTruncation) {
  const auto tokenizer = from_vocab(kVocab);
  const EncodeOptions bare{.max_length = 2, .special_tokens = false};
  EXPECT_FALSE(tokenizer->encode("a a  ", std::nullopt, bare).truncated);
  EXPECT_TRUE(tokenizer->encode("a a a", std::nullopt, bare).truncated);
  EXPECT_TRUE(tokenizer->encode("a a [MASK]", std::nullopt, bare).truncated);
  EXPECT_FALSE(tokenizer->encode("a [MASK] ", std::nullopt, bare).truncated);
}

TEST(WordPieceTokenizer, InfersCasedModelFromVocabulary) {
  const std::string cased = std::string(kVocab) + "Hello\n";
  EXPECT_THAT(from_vocab(cased)->encode("Hello hello", std::nullopt, {}).ids, ElementsAre(2, 11, 5, 3));
  TokenizerConfig config;
  config.do_lower_case = true;
  EXPECT_THAT(from_vocab(cased, config)->encode("Hello hello", std::nullopt, {}).ids, ElementsAre(2, 5, 5, 3));
}

TEST(WordPieceTokenizer, ConfigurationNamesSpecialTokensAndSwitches) {
  TokenizerConfig config;
  config.cls_token = "<c>";
  config.sep_token = "<s>";
  config.unk_token = "<u>";
  config.do_lower_case = false;
  config.strip_accents = true;
  config.tokenize_chinese_chars = false;
  AddedToken added;
  added.content = "<new>";
  config.added = {added};
  const auto tokenizer = from_vocab("<u>\n<c>\n<s>\ne\n中中\nE\n", config);
  EXPECT_THAT(tokenizer->encode("É é 中中 <new><s> q", std::nullopt, {}).ids, ElementsAre(1, 5, 3, 4, 6, 2, 0, 2));
  EXPECT_EQ(tokenizer->vocabulary(), 7);
}

TEST(WordPieceTokenizer, AcceptsCrLfBlanksAndMissingFinalNewline) {
  const auto tokenizer = from_vocab("[UNK]\r\n[CLS] \r\n[SEP]\u3000\r\n\r\nhello");
  EXPECT_THAT(tokenizer->encode("hello", std::nullopt, {}).ids, ElementsAre(1, 4, 2));
  EXPECT_EQ(tokenizer->token(3), "");
}

TEST(WordPieceTokenizer, RejectsBrokenVocabularies) {
  EXPECT_THAT(message_of(""), HasSubstr("vocab.txt: got no token"));
  EXPECT_THAT(message_of("\n\n \n"), HasSubstr("got no token"));
  EXPECT_THAT(message_of("[CLS]\n[SEP]\na\n"), HasSubstr("the special token '[UNK]' is missing"));
  EXPECT_THAT(message_of("[UNK]\n[CLS]\na\n"), HasSubstr("the special token '[SEP]' is missing"));
  EXPECT_THAT(message_of("[UNK]\n[CLS]\n[SEP]\na\nb\na\n"), HasSubstr("duplicate token 'a', with ids 3 and 5"));
  EXPECT_THAT(message_of("[UNK]\na\xFF\n"), HasSubstr("vocab.txt: line 2 column 2: got byte 0xFF, want UTF-8"));
}

TEST(WordPieceTokenizer, ReadsTokenizerJson) {
  const auto tokenizer = from_json(
      json_with(R"({"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"@","max_input_chars_per_word":3,
                    "vocab":{"?":0,"a":5,"@b":9}})"));
  EXPECT_THAT(tokenizer->encode("ab abb abbb A", std::nullopt, {}).ids, ElementsAre(5, 9, 5, 9, 9, 0, 0));
  EXPECT_EQ(tokenizer->vocabulary(), 10);
}

TEST(WordPieceTokenizer, TextIsOneWordWithoutPreTokenizer) {
  const auto tokenizer = from_json(R"({"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"a b":1,"##!":2}}})");
  EXPECT_THAT(tokenizer->encode("a b!", std::nullopt, {}).ids, ElementsAre(1, 2));
}

TEST(WordPieceTokenizer, RejectsInvalidModels) {
  const auto message = [](std::string_view model, std::string_view more = "") {
    return std::string(error_of([&] { (void)from_json(json_with(model, more)); }).what());
  };
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"[UNK]","vocab":{"a":0}})"),
              HasSubstr("tokenizer.json: model: vocab: the special token '[UNK]' is missing"));
  EXPECT_THAT(message(R"({"type":"WordPiece","vocab":{"a":0}})"), HasSubstr("field 'unk_token'"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a"})"), HasSubstr("field 'vocab'"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":["a"]})"), HasSubstr("vocab: got a list"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":"0"}})"), HasSubstr("token 'a': got \"0\""));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0,"b":0}})"),
              HasSubstr("id 0 belongs to both 'a' and 'b'"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":16777216}})"), HasSubstr("got id 16777216"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0},"max_input_chars_per_word":-1})"),
              HasSubstr("max_input_chars_per_word"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0},"dropout":0.1})"),
              HasSubstr("unknown field 'dropout'"));
  EXPECT_THAT(message(R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0}})",
                      R"("post_processor":{"type":"BertProcessing","sep":["x",7],"cls":["y",0]},)"),
              HasSubstr("special token id 7"));
}

TEST(WordPieceTokenizer, AcceptsNulBytesAndInvalidUtf8) {
  const auto tokenizer = from_vocab(kVocab);
  EXPECT_THAT(tokenizer->encode(std::string_view("he\0llo\0", 7), std::nullopt, {}).ids, ElementsAre(2, 5, 3));
  EXPECT_THAT(tokenizer->encode("hel\xC3lo \xED\xA0\x80", std::nullopt, {}).ids, ElementsAre(2, 5, 3));
}

TEST(WordPieceTokenizer, EncodesVeryLongTextsAndWords) {
  const auto tokenizer = from_vocab(kVocab);
  const std::string word(1'000'000, 'a');
  const EncodeOptions all{.max_length = 1 << 30};
  EXPECT_THAT(tokenizer->encode(word, std::nullopt, all).ids, ElementsAre(2, 1, 3));
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "é ";
  EXPECT_EQ(tokenizer->encode(text, std::nullopt, all).ids.size(), 200'002U);
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i) marks += "\u0301\u302E";
  EXPECT_THAT(tokenizer->encode(marks, std::nullopt, all).ids, ElementsAre(2, 1, 3));
}

TEST(WordPieceTokenizer, AddedTokensTakeLinearTime) {
  const auto config = [](size_t tokens) {
    TokenizerConfig out;
    for (size_t i = 0; i < tokens; ++i) {
      AddedToken token;
      token.content = fmt::format("t{}", i);
      out.added.push_back(std::move(token));
    }
    return out;
  };
  EXPECT_LT(growth_exponent(3000, config, [](const TokenizerConfig& tokens) { (void)from_vocab(kVocab, tokens); }),
            1.5);
}

}  // namespace
}  // namespace exeunt
