// SPDX-License-Identifier: Apache-2.0
// Expected splits were read off the oracle.
#include "exeunt/text/added_tokens.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::pair<std::string, int32_t>> kAddedTokens = {{"[UNK]", 0}, {"[MASK]", 1}, {"a", 2}};

AddedToken token(std::string content, bool normalized = false) {
  AddedToken out;
  out.content = std::move(content);
  out.normalized = normalized;
  return out;
}

AddedTokens make(std::vector<AddedToken> tokens, const Normalizer& normalizer = {}) {
  return AddedTokens(std::move(tokens), Vocabulary(kAddedTokens, "f"), normalizer, "f");
}

// "text" as it is cut: added tokens as <id:text>.
std::string cut(const AddedTokens& added, std::string_view text, bool normalized = false) {
  std::vector<AddedTokens::Part> parts;
  if (normalized) {
    added.split_normalized(text, parts);
  } else {
    added.split_raw(text, parts);
  }
  std::string out;
  for (const auto& [begin, end, id] : parts) {
    const std::string_view part = text.substr(begin, end - begin);
    out += id < 0 ? fmt::format("({})", part) : fmt::format("<{}:{}>", id, part);
  }
  return out;
}

TEST(AddedTokens, LongestMatchWins) {
  const AddedTokens added = make({token("ab"), token("abc"), token("bcd")});
  EXPECT_EQ(cut(added, "abcd abd"), "<4:abc>(d )<3:ab>(d)");
  EXPECT_EQ(cut(added, ""), "");
  EXPECT_EQ(cut(added, "xyz"), "(xyz)");
  EXPECT_EQ(cut(added, "abab"), "<3:ab><3:ab>");
}

// A text is compared with a token from each of its places, so that a long token would take time like its square.
TEST(AddedTokens, RejectsLongToken) {
  const std::string longest(kMaxTokenBytes, 'x');
  EXPECT_EQ(cut(make({token(longest)}), longest + "x"), fmt::format("<3:{}>(x)", longest));
  EXPECT_THAT(error_of([&] { (void)make({token(longest + "x")}); }).what(),
              HasSubstr("f: got an added token of 4097 bytes, want at most 4096"));
  const Normalizer doubles{Replace{"x", "yy", false}};
  EXPECT_THAT(error_of([&] { (void)make({token(longest, true)}, doubles); }).what(), HasSubstr("8192 bytes"))
      << "as it is compared";
}

TEST(AddedTokens, StripsWhiteSpaceWhenSet) {
  AddedToken left = token("[MASK]");
  left.lstrip = true;
  EXPECT_EQ(cut(make({left}), "a  [MASK] b"), "(a)<1:  [MASK]>( b)");
  AddedToken right = token("[MASK]");
  right.rstrip = true;
  EXPECT_EQ(cut(make({right}), "a  [MASK]  \u3000b"), "(a  )<1:[MASK]  \u3000>(b)");
  left.rstrip = true;
  EXPECT_EQ(cut(make({left}), " [MASK] [MASK] "), "<1: [MASK] ><1:[MASK] >");
}

TEST(AddedTokens, MayOverlapInStrippedSpace) {
  AddedToken first = token("A");
  first.rstrip = true;
  EXPECT_EQ(cut(make({first, token(" B")}), "A B"), "<3:A ><4: B>");
}

TEST(AddedTokens, WhiteSpaceTokensTakeLinearTime) {
  for (const bool left : {false, true}) {
    AddedToken blank = token(" ");
    (left ? blank.lstrip : blank.rstrip) = true;
    const AddedTokens added = make({blank});
    EXPECT_EQ(cut(added, "a  b"), left ? "(a)<3: ><3: >(b)" : "(a)<3:  ><3: >(b)");
    const auto blanks = [](size_t count) { return std::string(count, ' '); };
    std::vector<AddedTokens::Part> parts;  // kept, so that its memory is not part of the work
    const auto split = [&](const std::string& text) {
      parts.clear();
      added.split_raw(text, parts);
    };
    EXPECT_LT(growth_exponent(20'000, blanks, split), 1.5) << left;
  }
}

TEST(AddedTokens, SingleWordMatchesBetweenNonWordCharacters) {
  AddedToken mask = token("[MASK]");
  mask.single_word = true;
  EXPECT_EQ(cut(make({mask}), "a[MASK] [MASK]é [MASK]_ [MASK]- [MASK]"),
            "(a[MASK] [MASK]é [MASK]_ )<1:[MASK]>(- )<1:[MASK]>");
  AddedToken word = token("ab");
  word.single_word = true;
  EXPECT_EQ(cut(make({word, token("b")}), "xab b"), "(xab )<4:b>");  // no second look inside a refused match
}

TEST(AddedTokens, NormalizedTokensMatchNormalizedText) {
  const Normalizer lower{Lowercase{}};
  const AddedTokens added = make({token("Hello", true), token("RAW")}, lower);
  EXPECT_EQ(cut(added, "xhello RAW", true), "(x)<3:hello>( RAW)");
  EXPECT_EQ(cut(added, "xhello RAW", false), "(xhello )<4:RAW>");
}

TEST(AddedTokens, LastOfEqualPatternsWins) {
  const Normalizer lower{Lowercase{}};
  const AddedTokens added = make({token("ZZ", true), token("zz", true)}, lower);
  EXPECT_EQ(cut(added, "zz", true), "<4:zz>");
  // Special ones come before the others, whatever their order in the file.
  AddedToken special = token("ZZ", true);
  special.special = true;
  EXPECT_EQ(cut(make({token("zz", true), special}, lower), "zz", true), "<3:zz>");
}

TEST(AddedTokens, IgnoresPatternThatNormalizesToNothing) {
  const Normalizer bert{BertCleanup{}};
  const AddedTokens added = make({token("\u0301", true), token("qq", true)}, bert);
  EXPECT_EQ(cut(added, "a qq", true), "(a )<4:qq>");
}

TEST(AddedTokens, UsesVocabularyIdsOrNextFreeOnes) {
  const AddedTokens added = make({token("new"), token("a"), token(""), token("newer")});
  EXPECT_EQ(added.id("a"), 2);
  EXPECT_EQ(added.id("new"), 3);
  EXPECT_EQ(added.id("newer"), 4);
  EXPECT_EQ(added.id("none"), std::nullopt);
  EXPECT_EQ(*added.content(4), "newer");
  EXPECT_EQ(added.content(0), nullptr);
  EXPECT_EQ(added.id_limit(), 5);
}

TEST(AddedTokens, RejectsWrongIdsAndDuplicates) {
  AddedToken wrong = token("new");
  wrong.id = 77;
  EXPECT_THAT(error_of([&] { (void)make({wrong}); }).what(), HasSubstr("f: added token 'new': got id 77, want 3"));
  wrong.content = "a";
  EXPECT_THAT(error_of([&] { (void)make({wrong}); }).what(), HasSubstr("got id 77, want 2"));
  EXPECT_THAT(error_of([&] { (void)make({token("x"), token("x")}); }).what(), HasSubstr("duplicate added token 'x'"));
  const Vocabulary holes({{"a", 0}, {"b", 2}}, "f");
  EXPECT_THAT(error_of([&] { (void)AddedTokens({token("x")}, holes, {}, "f"); }).what(),
              HasSubstr("added token 'x': id 2 is already that of 'b'"));
}

TEST(AddedTokens, AreReadFromJson) {
  const auto tokens = parse_added_tokens(
      parse_json(R"([{"id":3,"content":"<m>","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,
                      "special":true},{"id":4,"content":"x"}])",
                 "f"),
      "f");
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].content, "<m>");
  EXPECT_TRUE(tokens[0].lstrip);
  EXPECT_FALSE(tokens[0].normalized);
  EXPECT_TRUE(tokens[1].normalized);
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)parse_added_tokens(parse_json(text, "f"), "f: added_tokens"); }).what());
  };
  EXPECT_THAT(message("{}"), HasSubstr("f: added_tokens: got an object, want a list"));
  EXPECT_THAT(message("[3]"), HasSubstr("added_tokens[0]: got 3, want an object"));
  EXPECT_THAT(message(R"([{"id":-1,"content":"x"}])"), HasSubstr("field 'id': got -1"));
  EXPECT_THAT(message(R"([{"id":1,"content":7}])"), HasSubstr("field 'content': got 7, want a string"));
  EXPECT_THAT(message(R"([{"id":1,"content":"x","lstrip":"no"}])"), HasSubstr("want true or false"));
}

}  // namespace
}  // namespace exeunt
