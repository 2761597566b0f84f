// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/post_processor.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tokens tokens(size_t count, int32_t first_id) {
  Tokens out;
  for (size_t i = 0; i < count; ++i) {
    out.add(first_id + static_cast<int32_t>(i), {static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1)});
  }
  return out;
}

Json parse(const char* text) {
  return parse_json(text, "f");
}

// Expected lengths were read off the oracle.
TEST(PostProcessor, TruncatesLongerTextFirst) {
  using Lengths = std::pair<size_t, size_t>;
  EXPECT_EQ(longest_first(1, 1, 3), Lengths(1, 1));
  EXPECT_EQ(longest_first(1, 1, 2), Lengths(1, 1));
  EXPECT_EQ(longest_first(5, 9, 8), Lengths(4, 4));
  EXPECT_EQ(longest_first(9, 5, 8), Lengths(4, 4));
  EXPECT_EQ(longest_first(9, 9, 9), Lengths(4, 5));
  EXPECT_EQ(longest_first(9, 9, 9, true), Lengths(5, 4));
  EXPECT_EQ(longest_first(8, 9, 9, true), Lengths(5, 4));
  EXPECT_EQ(longest_first(3, 9, 9, true), Lengths(3, 6));
  EXPECT_EQ(longest_first(9, 8, 9), Lengths(5, 4));
  EXPECT_EQ(longest_first(2, 9, 9), Lengths(2, 7));
  EXPECT_EQ(longest_first(9, 2, 9), Lengths(7, 2));
  EXPECT_EQ(longest_first(9, 9, 1), Lengths(0, 1));
  EXPECT_EQ(longest_first(9, 9, 0), Lengths(0, 0));
  EXPECT_EQ(longest_first(4, 9, 9), Lengths(4, 5));
  EXPECT_EQ(longest_first(7, 0, 3), Lengths(3, 0));
}

TEST(PostProcessor, BertPutsClsAndSepAroundOneAndTwoTexts) {
  const PostProcessor post = bert_post_processor(101, 102);
  const Encoding one = finish(post, tokens(2, 1), std::nullopt, {});
  EXPECT_THAT(one.ids, ElementsAre(101, 1, 2, 102));
  EXPECT_THAT(one.types, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(one.offsets, ElementsAre(Offset(0, 0), Offset(0, 1), Offset(1, 2), Offset(0, 0)));
  EXPECT_FALSE(one.truncated);
  const Encoding two = finish(post, tokens(1, 1), tokens(2, 5), {});
  EXPECT_THAT(two.ids, ElementsAre(101, 1, 102, 5, 6, 102));
  EXPECT_THAT(two.types, ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST(PostProcessor, RobertaPutsTwoSeparatorsBetweenTextsAndKeepsTypeZero) {
  const Encoding two = finish(roberta_post_processor(0, 2), tokens(1, 10), tokens(1, 20), {});
  EXPECT_THAT(two.ids, ElementsAre(0, 10, 2, 2, 20, 2));
  EXPECT_THAT(two.types, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(PostProcessor, WithoutSpecialTokensOnlyTypesStay) {
  const Encoding two =
      finish(bert_post_processor(101, 102), tokens(2, 1), tokens(1, 5), {.max_length = 2, .special_tokens = false});
  EXPECT_THAT(two.ids, ElementsAre(1, 5));
  EXPECT_THAT(two.types, ElementsAre(0, 1));
  EXPECT_TRUE(two.truncated);
  EXPECT_TRUE(finish(bert_post_processor(101, 102), tokens(1, 1), tokens(9, 5), {.max_length = 8}).truncated)
      << "the second alone";
  EXPECT_FALSE(finish(bert_post_processor(101, 102), tokens(1, 1), tokens(4, 5), {.max_length = 8}).truncated);
}

TEST(PostProcessor, AddsNothingWithoutPostProcessor) {
  const Encoding two = finish(parse_post_processor(Json(), "f"), tokens(1, 1), tokens(1, 5), {});
  EXPECT_THAT(two.ids, ElementsAre(1, 5));
  EXPECT_THAT(two.types, ElementsAre(0, 1));
}

TEST(PostProcessor, MaxLengthCountsSpecialTokensAndMustHoldThem) {
  const PostProcessor post = bert_post_processor(101, 102);
  EXPECT_THAT(finish(post, tokens(9, 1), std::nullopt, {.max_length = 4}).ids, ElementsAre(101, 1, 2, 102));
  EXPECT_THAT(finish(post, tokens(9, 1), std::nullopt, {.max_length = 2}).ids, ElementsAre(101, 102));
  const Error error = error_of([&] { (void)finish(post, tokens(1, 1), tokens(1, 1), {.max_length = 2}); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("max_length: got 2, want at least 3"));
  EXPECT_EQ(error_of([&] { (void)finish(post, {}, std::nullopt, {.max_length = -1}); }).code(), Code::usage);
}

TEST(PostProcessor, TemplatesMayPutTheSecondTextFirstAndSeveralIdsPerToken) {
  const PostProcessor post = parse_post_processor(parse(R"({"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
      "pair":[{"Sequence":{"id":"B","type_id":5}},{"SpecialToken":{"id":"[CLS]","type_id":2}},
              {"Sequence":{"id":"A","type_id":3}}],
      "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2,3],"tokens":["[CLS]","[SEP]"]}}})"),
                                                  "f");
  const Encoding two = finish(post, tokens(1, 9), tokens(2, 5), {});
  EXPECT_THAT(two.ids, ElementsAre(5, 6, 2, 3, 9));
  EXPECT_THAT(two.types, ElementsAre(5, 5, 2, 2, 3));
  const Encoding bare = finish(post, tokens(1, 9), tokens(2, 5), {.special_tokens = false});
  EXPECT_THAT(bare.ids, ElementsAre(5, 6, 9));
  EXPECT_THAT(bare.types, ElementsAre(5, 5, 3));
}

TEST(PostProcessor, ReadsEveryKind) {
  const PostProcessor bert =
      parse_post_processor(parse(R"({"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]})"), "f");
  EXPECT_THAT(finish(bert, tokens(1, 9), std::nullopt, {}).ids, ElementsAre(2, 9, 3));
  const PostProcessor roberta =
      parse_post_processor(parse(R"({"type":"RobertaProcessing","sep":["</s>",3],"cls":["<s>",2],"trim_offsets":true,
                "add_prefix_space":false})"),
                           "f");
  EXPECT_TRUE(roberta.trim_offsets);
  EXPECT_FALSE(roberta.add_prefix_space);
  const PostProcessor sequence =
      parse_post_processor(parse(R"({"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":true},
                {"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}]})"),
                           "f");
  EXPECT_TRUE(sequence.trim_offsets);
  EXPECT_EQ(sequence.single.size(), 3U);
}

// Pieces and the ids in each multiply.
TEST(PostProcessor, BoundsTemplateSize) {
  const auto form = [](size_t pieces, size_t ids) {
    std::string list = R"({"Sequence":{"id":"A","type_id":0}})", numbers = "1";
    for (size_t i = 1; i < pieces; ++i) list += R"(,{"SpecialToken":{"id":"s","type_id":0}})";
    for (size_t i = 1; i < ids; ++i) numbers += ",1";
    return R"({"type":"TemplateProcessing","single":[)" + list +
           R"(],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],"special_tokens":{"s":{"id":"s","ids":[)" +
           numbers + "]}}}";
  };
  const auto parse = [](const std::string& text) { return parse_post_processor(parse_json(text, "f"), "f"); };
  EXPECT_EQ(parse(form(64, 64)).single.size(), 64U);
  EXPECT_THAT(error_of([&] { (void)parse(form(65, 1)); }).what(), HasSubstr("got 65 pieces, want at most 64"));
  EXPECT_THAT(error_of([&] { (void)parse(form(2, 65)); }).what(), HasSubstr("want a list of at most 64 ids"));
}

TEST(PostProcessor, RejectsInvalidForms) {
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)parse_post_processor(parse(text), "f: post_processor"); }).what());
  };
  EXPECT_THAT(message(R"({"type":"Bert"})"), HasSubstr("field 'type': got 'Bert', want one of BertProcessing"));
  EXPECT_THAT(message("[]"), HasSubstr("got a list, want an object"));
  EXPECT_THAT(message(R"({"type":"BertProcessing","sep":["[SEP]"],"cls":["[CLS]",2]})"),
              HasSubstr("field 'sep': got a list, want a list of a token and its id"));
  EXPECT_THAT(message(R"({"type":"BertProcessing","sep":["[SEP]",99999999999],"cls":["[CLS]",2]})"),
              HasSubstr("field 'sep'"));
  EXPECT_THAT(message(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],
                          "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}]})"),
              HasSubstr("single: got sequence B, want A alone"));
  EXPECT_THAT(message(R"({"type":"TemplateProcessing","single":[],"pair":[{"Sequence":{"id":"A","type_id":0}}]})"),
              HasSubstr("want both sequences"));
  EXPECT_THAT(message(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[]})"),
              HasSubstr("special token 'x' is not in special_tokens"));
  EXPECT_THAT(message(R"({"type":"TemplateProcessing","single":["$A"],"pair":[]})"), HasSubstr("got \"$A\""));
  EXPECT_THAT(message(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":256}}],"pair":[]})"),
              HasSubstr("want a whole number from 0 to 255"));
  EXPECT_THAT(message(R"({"type":"Sequence","processors":[
                {"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
                {"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}]})"),
              HasSubstr("processors[1]: got a second processor"));
}

}  // namespace
}  // namespace exeunt
