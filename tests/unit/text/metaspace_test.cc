// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unigram.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Scheme = Metaspace::Prepend;

// Each word with the range of the original it stands for.
std::vector<std::string> words(const Metaspace& metaspace, std::string_view text, uint32_t first = 0) {
  const NormalizedText source(text, first);
  std::vector<std::string> out;
  MarkedWord word;
  for (MetaspaceWords walk(metaspace, source, 0, source.size()); walk.next(word);) {
    const auto [begin, end] = word.origin(source, 0, word.text.size());
    out.push_back(fmt::format("{}:{}-{}", word.text, begin, end));
  }
  return out;
}

TEST(Metaspace, BlanksBecomeMarksAndBeginWords) {
  EXPECT_THAT(words({}, "Hey friend!"), ElementsAre("▁Hey:0-3", "▁friend!:3-11"));
  EXPECT_THAT(words({}, "a   b"), ElementsAre("▁a:0-1", "▁:1-2", "▁:2-3", "▁b:3-5"));
  EXPECT_THAT(words({}, " a "), ElementsAre("▁a:0-2", "▁:2-3"));
  EXPECT_THAT(words({}, "a▁b"), ElementsAre("▁a:0-1", "▁b:1-3"));
  EXPECT_THAT(words({}, "▁"), ElementsAre("▁:0-1"));
}

TEST(Metaspace, PrependsMarkAlwaysFirstOrNever) {
  EXPECT_THAT(words({.prepend = Scheme::never}, "a b"), ElementsAre("a:0-1", "▁b:1-3"));
  EXPECT_THAT(words({.prepend = Scheme::first}, "é b"), ElementsAre("▁é:0-1", "▁b:1-3"));
  EXPECT_THAT(words({.prepend = Scheme::first}, "a b", 4), ElementsAre("a:4-5", "▁b:5-7"));
  EXPECT_THAT(words({.prepend = Scheme::always}, "a", 4), ElementsAre("▁a:4-5"));
}

TEST(Metaspace, SplitsAtAnyWhiteSpace) {
  EXPECT_THAT(words({.whitespace_split = true}, " a\t\u3000b▁c\n"), ElementsAre("▁a:1-2", "▁b:4-5", "▁c:5-7"));
  EXPECT_THAT(words({.whitespace_split = true, .mark = ""}, " a b"), ElementsAre("a:1-2", "b:3-4"));
  EXPECT_THAT(words({.mark = ""}, " a b"), ElementsAre(" a b:0-4"));
}

TEST(Metaspace, TracksOriginOfWords) {
  const NormalizedText source("xé y", 10);
  MarkedWord word;
  const Metaspace metaspace;
  MetaspaceWords walk(metaspace, source, 0, source.size());
  ASSERT_TRUE(walk.next(word));
  EXPECT_EQ(word.origin(source, 0, 3), Offset(10, 11));  // a mark put before stands for the first character
  EXPECT_EQ(word.origin(source, 3, 6), Offset(10, 12));
  ASSERT_TRUE(walk.next(word));
  EXPECT_EQ(word.origin(source, 0, 3), Offset(12, 13));  // the blank
  EXPECT_EQ(word.origin(source, 3, 4), Offset(13, 14));
  EXPECT_FALSE(walk.next(word));
}

TEST(Metaspace, MarksBlanksOfATextInOnePiece) {
  const NormalizedText source("a b", 0);
  EXPECT_EQ(mark_blanks({}, source, 0, 3).text(), "▁a▁b");
  EXPECT_EQ(mark_blanks({.prepend = Scheme::never}, source, 1, 3).text(), "▁b");
  EXPECT_EQ(mark_blanks({.prepend = Scheme::first}, source, 2, 3).text(), "b");
}

TEST(Metaspace, ReadsItsJsonForms) {
  const auto parse = [](const char* text) { return parse_metaspace(parse_json(text, "f"), "f"); };
  EXPECT_EQ(parse("null").mark, "");
  EXPECT_EQ(parse(R"({"type":"Metaspace","replacement":"_"})").mark, "_");
  EXPECT_EQ(parse(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first"})").prepend, Scheme::first);
  EXPECT_EQ(parse(R"({"type":"Metaspace","replacement":"▁","add_prefix_space":false})").prepend, Scheme::never);
  EXPECT_FALSE(parse(R"({"type":"Metaspace","replacement":"▁","split":false,"str_rep":"▁"})").split);
  const Metaspace both = parse(
      R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁"}]})");
  EXPECT_TRUE(both.whitespace_split);
  EXPECT_EQ(both.mark, "▁");
}

TEST(Metaspace, RejectsOtherForms) {
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)parse_metaspace(parse_json(text, "f"), "f"); }).what());
  };
  EXPECT_THAT(message(R"({"type":"Metspace"})"), HasSubstr("Metspace"));
  EXPECT_THAT(message(R"({"type":"Metaspace"})"), HasSubstr("replacement"));
  EXPECT_THAT(message(R"({"type":"Metaspace","replacement":"ab"})"), HasSubstr("got 'ab', want one character"));
  EXPECT_THAT(message(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"last"})"), HasSubstr("last"));
  EXPECT_THAT(message(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","add_prefix_space":false})"),
              HasSubstr("want 'never', as add_prefix_space is false"));
  EXPECT_THAT(message(R"({"type":"Metaspace","replacement":"▁","sp1it":true})"), HasSubstr("sp1it"));
  EXPECT_THAT(message(R"({"type":"Sequence","pretokenizers":{}})"), HasSubstr("want a list"));
  EXPECT_THAT(message(R"({"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"▁"},
                                                             {"type":"WhitespaceSplit"}]})"),
              HasSubstr("f: pretokenizers[1]: got a pre-tokenizer after Metaspace"));
}

}  // namespace
}  // namespace exeunt
