// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/utf8.h"

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Decoded back = decode_utf8(text);
    ASSERT_TRUE(back.valid);
    ASSERT_EQ(back.code_point, c);
    ASSERT_EQ(back.bytes, text.size());
  }
}

TEST(Utf8, TerminalTextHasNoControlCharacters) {
  EXPECT_EQ(terminal_text("a\x1b[2J\x7f\xc2\x9b\r\xff é\t中\n"), "a\uFFFD[2J\uFFFD\uFFFD\uFFFD\uFFFD é\t中\n");
  EXPECT_EQ(terminal_line("a\tb\nc\x1b é"), "a\uFFFDb\uFFFDc\uFFFD é");
}

// Unicode 15, section 3.9, table 3-8 and the cases around it: one replacement per maximal subpart.
TEST(Utf8, ReplacesInvalidPartsAsUnicodeRecommends) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("ok \xE2\x82"), "ok " + r);
}

TEST(Utf8, FindsFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("gr\xC3\xBC\xC3\x9F"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("abc\xFF"), 3U);
  EXPECT_EQ(find_invalid_utf8("ab\xC3"), 2U);
}

}  // namespace
}  // namespace exeunt
