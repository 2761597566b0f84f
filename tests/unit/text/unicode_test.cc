// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unicode.h"

#include <gtest/gtest.h>

namespace exeunt::unicode {
namespace {

TEST(Unicode, KnowsWhatBertDropsAndKeeps) {
  EXPECT_TRUE(is_bert_removed(0));
  EXPECT_TRUE(is_bert_removed(0x7F));
  EXPECT_TRUE(is_bert_removed(0xFFFD));
  EXPECT_TRUE(is_bert_removed(0x200D));    // joiners are format characters
  EXPECT_TRUE(is_bert_removed(0xE000));    // private use
  EXPECT_TRUE(is_bert_removed(0x10FFFD));  // the last of them
  EXPECT_FALSE(is_bert_removed('\t'));
  EXPECT_FALSE(is_bert_removed('a'));
  EXPECT_FALSE(is_bert_removed(0x1F600));
}

TEST(Unicode, KnowsSpacePunctuationAndIdeographs) {
  for (const char32_t c : {U' ', U'\t', U'\n', U'\v', U'\f', U'\r', U'\x85', U'\xA0', U'\u2003', U'\u3000'}) {
    EXPECT_TRUE(is_space(c)) << static_cast<uint32_t>(c);
  }
  EXPECT_FALSE(is_space(0x200B));
  for (const char32_t c : {U'!', U'$', U'^', U'`', U'~', U'_', U'\u3002', U'\u00BF'}) {
    EXPECT_TRUE(is_bert_punctuation(c)) << static_cast<uint32_t>(c);
  }
  EXPECT_FALSE(is_bert_punctuation(U'a'));
  EXPECT_FALSE(is_bert_punctuation(0x20AC));  // the euro sign is a symbol
  EXPECT_TRUE(is_chinese(0x4E2D));
  EXPECT_FALSE(is_chinese(0x3042));
  EXPECT_FALSE(is_chinese(0xAC00));
}

TEST(Unicode, LowercasesOneCodePointAtATime) {
  EXPECT_EQ(lowercase(U'A').first, U'a');
  EXPECT_EQ(lowercase(0x3A3).first, 0x3C3U);
  EXPECT_EQ(lowercase(0x1E921).first, 0x1E943U);
  EXPECT_EQ(lowercase(0x130).first, U'i');
  EXPECT_EQ(lowercase(0x130).second, 0x307U);
  EXPECT_EQ(lowercase(0x10FFFF).first, 0x10FFFFU);
  EXPECT_EQ(lowercase(U'A').second, 0U);
}

TEST(Unicode, DecomposesAndComposes) {
  EXPECT_EQ(decomposition(0x1E69, false), U"s\u0323\u0307");
  EXPECT_EQ(decomposition(0xFB01, false), U"");
  EXPECT_EQ(decomposition(0xFB01, true), U"fi");
  EXPECT_EQ(decomposition(0x3D3, false), U"\u03D2\u0301");  // canonical and compatibility differ
  EXPECT_EQ(decomposition(0x3D3, true), U"\u03A5\u0301");
  EXPECT_EQ(decomposition(0xFDFA, true).size(), 18U);
  EXPECT_EQ(decomposition(U'a', true), U"");
  EXPECT_EQ(decomposition(0x10FFFF, true), U"");
  EXPECT_EQ(composition(U'a', 0x301), 0xE1U);
  EXPECT_EQ(composition(U'q', 0x301), 0U);
  EXPECT_EQ(composition(0x915, 0x93C), 0U);  // excluded from composition
}

TEST(Unicode, RanksKeepTheOrderOfCombiningClasses) {
  EXPECT_EQ(combining_rank(U'a'), 0);
  EXPECT_GT(combining_rank(0x301), combining_rank(0x323));
  EXPECT_GT(combining_rank(0x345), combining_rank(0x301));
  EXPECT_EQ(combining_rank(0x301), combining_rank(0x302));
}

}  // namespace
}  // namespace exeunt::unicode
