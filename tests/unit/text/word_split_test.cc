// SPDX-License-Identifier: Apache-2.0
// Expected words were read off the oracle.
#include "exeunt/text/wordpiece.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(WordSplit split, std::string_view text) {
  std::vector<std::string> out;
  for (WordRange range = next_word(split, text, 0); range.begin < range.end;
       range = next_word(split, text, range.end)) {
    out.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return out;
}

TEST(WordSplit, BertSplitsAtPunctuation) {
  EXPECT_THAT(words(WordSplit::bert, "  don't  $5.00 état。ça\u3000va\t€"),
              ElementsAre("don", "'", "t", "$", "5", ".", "00", "état", "。", "ça", "va", "€"));
  EXPECT_THAT(words(WordSplit::bert, "!?"), ElementsAre("!", "?"));
  EXPECT_THAT(words(WordSplit::bert, " \u2003 "), ElementsAre());
  EXPECT_THAT(words(WordSplit::bert, ""), ElementsAre());
}

TEST(WordSplit, WhitespaceTellsWordCharactersFromOthers) {
  EXPECT_THAT(words(WordSplit::whitespace, "don't «été»_x!? 5€"),
              ElementsAre("don", "'", "t", "«", "été", "»", "_x", "!?", "5", "€"));
}

TEST(WordSplit, WhitespaceSplitCutsAtWhiteSpaceAlone) {
  EXPECT_THAT(words(WordSplit::whitespace_split, " don't\u00A0stop! "), ElementsAre("don't", "stop!"));
}

TEST(WordSplit, NoneKeepsTheTextWhole) {
  EXPECT_THAT(words(WordSplit::none, " a b "), ElementsAre(" a b "));
}

TEST(WordSplit, NamesUnsupportedKinds) {
  EXPECT_EQ(parse_word_split(Json(), "f"), WordSplit::none);
  EXPECT_EQ(parse_word_split(parse_json(R"({"type":"BertPreTokenizer"})", "f"), "f"), WordSplit::bert);
  EXPECT_EQ(parse_word_split(parse_json(R"({"type":"Whitespace"})", "f"), "f"), WordSplit::whitespace);
  EXPECT_EQ(parse_word_split(parse_json(R"({"type":"WhitespaceSplit"})", "f"), "f"), WordSplit::whitespace_split);
  EXPECT_THAT(
      error_of([] { (void)parse_word_split(parse_json(R"({"type":"Metaspace"})", "f"), "f: pre_tokenizer"); }).what(),
      HasSubstr("f: pre_tokenizer: field 'type': got 'Metaspace', want one of BertPreTokenizer"));
}

}  // namespace
}  // namespace exeunt
