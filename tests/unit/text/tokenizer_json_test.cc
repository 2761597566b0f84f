// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/tokenizer_json.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

TEST(TokenizerJson, ReadsCommonParts) {
  const TokenizerJson json = parse_tokenizer_json(R"({"version":"1.0","truncation":{"max_length":3},"padding":{},
      "added_tokens":[{"id":0,"content":"[UNK]","special":true}],
      "normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"BertPreTokenizer"},
      "post_processor":null,"decoder":{"type":"WordPiece"},
      "model":{"type":"WordPiece","vocab":{"[UNK]":0}}})",
                                                  "tokenizer.json");
  EXPECT_EQ(json.parts.added.size(), 1U);
  EXPECT_EQ(json.parts.normalizer.size(), 1U);
  EXPECT_EQ(json.parts.post.single.size(), 1U);
  EXPECT_EQ(json.pre_tokenizer["type"], "BertPreTokenizer");
  EXPECT_EQ(json.model_type, "WordPiece");
  EXPECT_FALSE(json.model.contains("type"));
  EXPECT_EQ(json.model["vocab"]["[UNK]"], 0);
}

TEST(TokenizerJson, InfersModelTypeOfOldFiles) {
  const auto type = [](const std::string& model) {
    return parse_tokenizer_json("{\"model\":" + model + "}", "f").model_type;
  };
  EXPECT_EQ(type(R"({"vocab":{},"merges":[]})"), "BPE");
  EXPECT_EQ(type(R"({"vocab":{},"continuing_subword_prefix":"##"})"), "WordPiece");
  EXPECT_EQ(type(R"({"vocab":[],"unk_id":0})"), "Unigram");
}

TEST(TokenizerJson, RejectsInvalidFiles) {
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)parse_tokenizer_json(text, "tokenizer.json"); }).what());
  };
  EXPECT_THAT(message("[]"), HasSubstr("tokenizer.json: got a list, want an object"));
  EXPECT_THAT(message("{}"), HasSubstr("field 'model'"));
  EXPECT_THAT(message(R"({"model":3})"), HasSubstr("tokenizer.json: model: got 3"));
  EXPECT_THAT(message(R"({"model":{}})"), HasSubstr("field 'type' is missing"));
  EXPECT_THAT(message(R"({"model":{"type":"WordLevel"}})"), HasSubstr("got 'WordLevel', want one of WordPiece"));
  EXPECT_THAT(message(R"({"model":{"type":"BPE"},"normaliser":null})"), HasSubstr("unknown field 'normaliser'"));
  EXPECT_THAT(message(R"({"model":{"type":"BPE"},"added_tokens":{}})"), HasSubstr("added_tokens: got an object"));
}

TEST(TokenizerConfig, ReadsFlagsAndSpecialTokensOfBothFiles) {
  const Scratch folder;
  folder.write("tokenizer_config.json", R"({"do_lower_case":false,"strip_accents":null,"model_max_length":1e30,
      "cls_token":"<c>","mask_token":{"content":"<m>","lstrip":true,"rstrip":false,"normalized":true,
      "single_word":false,"__type":"AddedToken"},"additional_special_tokens":["<x>"],
      "added_tokens_decoder":{"10":{"content":"ten","special":false,"normalized":true},
                              "9":{"content":"nine","special":true}}})");
  folder.write("special_tokens_map.json", R"({"cls_token":"ignored","sep_token":"<s>"})");
  folder.write("added_tokens.json", R"({"extra":12,"nine":9})");
  const TokenizerConfig config = read_tokenizer_config(folder.path());
  EXPECT_EQ(config.do_lower_case, false);
  EXPECT_EQ(config.strip_accents, std::nullopt);
  EXPECT_EQ(config.cls_token, "<c>");
  EXPECT_EQ(config.sep_token, "<s>");
  EXPECT_EQ(config.mask_token, "<m>");
  EXPECT_EQ(config.pad_token, std::nullopt);
  ASSERT_EQ(config.added.size(), 5U);
  EXPECT_EQ(config.added[0].content, "nine");
  EXPECT_EQ(config.added[0].id, 9);
  EXPECT_TRUE(config.added[0].special);
  EXPECT_EQ(config.added[1].content, "ten");
  EXPECT_TRUE(config.added[1].normalized);
  EXPECT_EQ(config.added[2].content, "<m>");
  EXPECT_TRUE(config.added[2].lstrip);
  EXPECT_EQ(config.added[3].content, "<x>");
  EXPECT_FALSE(config.added[3].normalized);
  EXPECT_EQ(config.added[4].content, "extra");
}

TEST(TokenizerConfig, AddedTokensTakeLinearTime) {
  const auto folder = [](size_t tokens) {
    auto scratch = std::make_unique<Scratch>(quick_parent());
    std::string text = R"({"t":0)";
    for (size_t i = 1; i < tokens; ++i) text += fmt::format(R"(,"t{0}":{0})", i);
    scratch->write("added_tokens.json", text + "}");
    return scratch;
  };
  const auto read = [](const std::unique_ptr<Scratch>& scratch) { (void)read_tokenizer_config(scratch->path()); };
  EXPECT_LT(growth_exponent(2000, folder, read), 1.5);
}

TEST(TokenizerConfig, MissingFilesGiveDefaults) {
  const Scratch folder;
  const TokenizerConfig config = read_tokenizer_config(folder.path());
  EXPECT_EQ(config.do_lower_case, std::nullopt);
  EXPECT_TRUE(config.added.empty());
}

TEST(TokenizerConfig, WrongTypeErrorNamesFile) {
  const auto message = [](const char* text) {
    const Scratch folder;
    folder.write("tokenizer_config.json", text);
    return std::string(error_of([&] { (void)read_tokenizer_config(folder.path()); }).what());
  };
  EXPECT_THAT(message(R"({"do_lower_case":"yes"})"), HasSubstr("field 'do_lower_case': got \"yes\""));
  EXPECT_THAT(message(R"({"cls_token":3})"), HasSubstr("field 'cls_token': got 3"));
  EXPECT_THAT(message(R"({"added_tokens_decoder":[]})"), HasSubstr("want an object"));
  EXPECT_THAT(message(R"({"added_tokens_decoder":{"x":{"content":"a"}}})"), HasSubstr("want an id"));
  EXPECT_THAT(message(R"({"added_tokens_decoder":{"99999999":{"content":"a"}}})"), HasSubstr("want an id"));
  EXPECT_THAT(message(R"({"added_tokens_decoder":{"1":"a"}})"), HasSubstr("want an object"));
  EXPECT_THAT(message(R"({"additional_special_tokens":"a"})"), HasSubstr("want a list"));
}

}  // namespace
}  // namespace exeunt
