// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/pipeline.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::pair<std::string, int32_t>> kTokens = {{"?", 0}, {"[CLS]", 1}, {"[SEP]", 2}, {"[MASK]", 3}};

Pipeline::Parts parts() {
  Pipeline::Parts out;
  out.where = "f";
  out.normalizer = {BertCleanup{}};
  out.post = bert_post_processor(1, 2);
  AddedToken mask;
  mask.content = "[MASK]";
  mask.normalized = false;
  AddedToken word;
  word.content = "Yes";
  out.added = {mask, word};
  return out;
}

Encoding encode(const Pipeline& pipeline, std::string_view text, std::optional<std::string_view> pair = {}) {
  // Each stretch is one token: 0.
  return pipeline.encode(text, pair, {}, [](const NormalizedText& normal, size_t begin, size_t end, Tokens& out) {
    out.add(0, normal.origin(begin, end));
  });
}

TEST(Pipeline, CutsOutAddedTokensBeforeAndAfterNormalization) {
  const Pipeline pipeline(parts(), Vocabulary(kTokens, "f"));
  const Encoding out = encode(pipeline, "é[MASK]xYESy");
  EXPECT_THAT(out.ids, ElementsAre(1, 0, 3, 0, 4, 0, 2));
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 0), Offset(0, 1), Offset(1, 7), Offset(7, 8), Offset(8, 11),
                                       Offset(11, 12), Offset(0, 0)));
}

TEST(Pipeline, CountsCodePointsNotBytes) {
  const Pipeline pipeline(parts(), Vocabulary(kTokens, "f"));
  const Encoding out = encode(pipeline, "\U0001F600\U0001F600[MASK]", "中[MASK]");
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 0), Offset(0, 2), Offset(2, 8), Offset(0, 0), Offset(0, 1),
                                       Offset(1, 7), Offset(0, 0)));
  EXPECT_THAT(out.types, ElementsAre(0, 0, 0, 0, 1, 1, 1));
}

// Each maximal part of broken UTF-8 counts as one code point, U+FFFD, which BERT drops.
TEST(Pipeline, ReplacesInvalidUtf8) {
  const Pipeline pipeline(parts(), Vocabulary(kTokens, "f"));
  const Encoding out = encode(pipeline,
                              "\xF0\x9F\x98"
                              "a\xFF"
                              "[MASK]");
  EXPECT_THAT(out.ids, ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 0), Offset(1, 2), Offset(3, 9), Offset(0, 0)));
}

TEST(Pipeline, TextNormalizedToNothingKeepsSpecialTokens) {
  const Pipeline pipeline(parts(), Vocabulary(kTokens, "f"));
  EXPECT_THAT(encode(pipeline, "").ids, ElementsAre(1, 2));
  EXPECT_THAT(encode(pipeline, std::string_view("\0\0", 2)).ids, ElementsAre(1, 2));
  EXPECT_THAT(encode(pipeline, "", "").ids, ElementsAre(1, 2, 2));
}

TEST(Pipeline, FindsVocabularyAndAddedTokens) {
  const Pipeline pipeline(parts(), Vocabulary(kTokens, "f"));
  EXPECT_EQ(pipeline.id_limit(), 5);
  EXPECT_EQ(pipeline.token(4), "Yes");
  EXPECT_EQ(pipeline.token(0), "?");
  EXPECT_EQ(pipeline.token(9), "");
  EXPECT_EQ(pipeline.id("Yes"), 4);
  EXPECT_EQ(pipeline.id("[SEP]"), 2);
  EXPECT_EQ(pipeline.id("none"), std::nullopt);
}

TEST(Pipeline, RejectsUnknownSpecialTokenIds) {
  Pipeline::Parts broken = parts();
  broken.post = bert_post_processor(1, 9);
  EXPECT_THAT(error_of([&] { Pipeline(std::move(broken), Vocabulary(kTokens, "f")); }).what(),
              HasSubstr("f: post_processor: got special token id 9"));
}

}  // namespace
}  // namespace exeunt
