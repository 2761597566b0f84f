// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/utf8.h"
#include "exeunt/text/byte_bpe.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;
using testing::ElementsAre;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST(ByteLevel, MapsEveryByteToPrintableCharacter) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = byte_character(static_cast<uint8_t>(byte));
    EXPECT_TRUE(seen.insert(c).second);
    EXPECT_GT(c, U' ');
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(token_bytes(text), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_character(' '), 0x120U);
  EXPECT_EQ(byte_character('A'), U'A');
  EXPECT_EQ(byte_character(0xAD), 0x143U);
}

TEST(ByteLevel, ConvertsTokensToBytes) {
  EXPECT_EQ(token_bytes("Ġthe"), " the");
  EXPECT_EQ(token_bytes("Ã©"), "é");
  EXPECT_EQ(token_bytes("a b"), std::nullopt);
  EXPECT_EQ(token_bytes("中"), std::nullopt);
  EXPECT_EQ(token_bytes(""), "");
}

TEST(ByteLevel, WordsIncludePrecedingBlank) {
  EXPECT_THAT(words("Hello my friend, how?"), ElementsAre("Hello", " my", " friend", ",", " how", "?"));
  EXPECT_THAT(words("a1b22 33c"), ElementsAre("a", "1", "b", "22", " 33", "c"));
  EXPECT_THAT(words("x!?y #tag"), ElementsAre("x", "!?", "y", " #", "tag"));
}

TEST(ByteLevel, ContractionsAreWordsUnlessABlankOrCapitalsComeBetween) {
  EXPECT_THAT(
      words("we'll it's I'm they've you're he'd don't"),
      ElementsAre("we", "'ll", " it", "'s", " I", "'m", " they", "'ve", " you", "'re", " he", "'d", " don", "'t"));
  EXPECT_THAT(words("WE'LL 's ''s 'l '"), ElementsAre("WE", "'", "LL", " '", "s", " ''", "s", " '", "l", " '"));
  EXPECT_THAT(words("'sx"), ElementsAre("'s", "x"));
}

TEST(ByteLevel, LastBlankOfRunBelongsToNextWord) {
  EXPECT_THAT(words("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(words("a \n\nb"), ElementsAre("a", " \n", "\n", "b"));
  EXPECT_THAT(words("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(words("\tb \u3000c"), ElementsAre("\t", "b", " ", "\u3000", "c"));
  EXPECT_THAT(words(" "), ElementsAre(" "));
}

TEST(ByteLevel, LettersAndNumbersAreThoseOfAllScripts) {
  EXPECT_THAT(words("русский 日本語٣½²x"), ElementsAre("русский", " 日本語", "٣½²", "x"));
  EXPECT_THAT(words("e\u0301x\0y"s), ElementsAre("e", "\u0301", "x", "\0"s, "y"));  // a mark is no letter
}

}  // namespace
}  // namespace exeunt
