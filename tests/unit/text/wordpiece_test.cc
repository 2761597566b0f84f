// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/wordpiece.h"

#include <bit>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/random.h"
#include "tests/fixtures/growth.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

using Pairs = std::vector<std::pair<std::string, int32_t>>;

// The pieces of a word as "id:begin-end".
std::vector<std::string> cut(const WordPieceModel& model, std::string_view word) {
  std::vector<WordToken> pieces;
  model.cut(word, pieces);
  std::vector<std::string> out;
  for (const auto& piece : pieces) {
    out.push_back(std::to_string(piece.id) + ":" + std::to_string(piece.begin) + "-" + std::to_string(piece.end));
  }
  return out;
}

const Pairs kWordPieces = {{"[UNK]", 0},  {"un", 1},     {"una", 2},   {"##aff", 3}, {"##able", 4}, {"##a", 5},
                           {"##b", 6},    {"é", 7},      {"##é", 8},   {"##中", 9},  {"a", 10},     {"##", 11},
                           {"##x##", 12}, {"hello", 13}, {"##lo", 14}, {"hel", 15}};

TEST(WordPiece, ChoosesLongestPieceFromLeft) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {});
  EXPECT_THAT(cut(model, "unaffable"), ElementsAre("0:0-9"));  // una##ff… fails: no way back to un##aff##able
  EXPECT_THAT(cut(model, "unb"), ElementsAre("1:0-2", "6:2-3"));
  EXPECT_THAT(cut(model, "unab"), ElementsAre("2:0-3", "6:3-4"));
  EXPECT_THAT(cut(model, "hello"), ElementsAre("13:0-5"));
  EXPECT_THAT(cut(model, "hello中"), ElementsAre("13:0-5", "9:5-8"));
  EXPECT_THAT(cut(model, "éé"), ElementsAre("7:0-2", "8:2-4"));
}

// Words of 16 bytes whose products with a known number agree in their highest bits: such a file is made in seconds
// where the table's hash has no secret.
TEST(WordPiece, CollidingWordsTakeNoLongerThanOthers) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kOdd * inverse;
  ASSERT_EQ(kOdd * inverse, 1U);
  SplitMix64 random(1);
  const auto seconds = [&](bool chosen) {
    Pairs pairs{{"[UNK]", 0}};
    while (pairs.size() < 16'000) {
      const uint64_t high = (random.next() & 0x1F1F1F1F1F1F1F1FU) | 0x4040404040404040U, any = random.next();
      const uint64_t low = chosen ? ((any >> 40) * inverse ^ std::rotl(high * kOdd, 32)) * inverse - 16 : any;
      if ((low & 0x8080808080808080U) != 0) continue;  // not ASCII
      std::string word(16, ' ');
      std::memcpy(word.data(), &low, 8);
      std::memcpy(word.data() + 8, &high, 8);
      pairs.emplace_back(std::move(word), static_cast<int32_t>(pairs.size()));
    }
    const Vocabulary words(pairs, "f");
    return least_seconds([&] { (void)WordPieceModel(words, {}); });
  };
  EXPECT_LT(seconds(true), 2 * seconds(false));
}

TEST(WordPiece, WordWithoutSegmentationIsUnknown) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {});
  EXPECT_THAT(cut(model, "q"), ElementsAre("0:0-1"));
  EXPECT_THAT(cut(model, "unq"), ElementsAre("0:0-3"));
  EXPECT_THAT(cut(model, "b"), ElementsAre("0:0-1"));  // ##b continues words only
}

TEST(WordPiece, LongWordLimitCountsCodePoints) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {.max_chars = 3});
  EXPECT_THAT(cut(model, "ééé"), ElementsAre("7:0-2", "8:2-4", "8:4-6"));
  EXPECT_THAT(cut(model, "éééé"), ElementsAre("0:0-8"));
  EXPECT_THAT(cut(model, "hello"), ElementsAre("0:0-5"));  // even a token of the vocabulary
  EXPECT_EQ(model.whole("hello"), -1);
  EXPECT_EQ(model.whole("un"), 1);
}

TEST(WordPiece, HugeWordIsUnknown) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {});
  const std::string word(1'000'000, 'a');
  EXPECT_THAT(cut(model, word), ElementsAre("0:0-1000000"));
  const WordPieceModel patient(Vocabulary(kWordPieces, "f"), {.max_chars = 2'000'000});
  EXPECT_EQ(cut(patient, word).size(), 1'000'000U);
}

TEST(WordPiece, PrefixInTextIsText) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {});
  EXPECT_THAT(cut(model, "##"), ElementsAre("11:0-2"));
  EXPECT_THAT(cut(model, "##b"), ElementsAre("6:0-3"));
  EXPECT_THAT(cut(model, "ax##"), ElementsAre("10:0-1", "12:1-4"));
  EXPECT_THAT(cut(model, "a##"), ElementsAre("0:0-3"));  // an empty continuation is none
}

TEST(WordPiece, EmptyPrefixMakesEveryTokenAContinuation) {
  const WordPieceModel model(Vocabulary(kWordPieces, "f"), {.prefix = ""});
  EXPECT_THAT(cut(model, "aun"), ElementsAre("10:0-1", "1:1-3"));
}

// Every token must be found by its key, words of the same head and tail but other lengths or middles must not.
TEST(WordPiece, FindsWholeWordsByBytes) {
  Pairs tokens = {{"[UNK]", 0}};
  for (const char c : {'x', 'y', '\0'}) {
    for (size_t size = 1; size <= 20; ++size) {
      tokens.emplace_back(std::string(size, c), static_cast<int32_t>(tokens.size()));
    }
  }
  tokens.emplace_back("xxxxxxxxb", 900);
  tokens.emplace_back("abcabc", 901);
  const WordPieceModel model(Vocabulary(tokens, "f"), {});
  for (const auto& [token, id] : tokens) EXPECT_EQ(model.whole(token), token.size() <= 16 ? id : -1) << token;
  EXPECT_EQ(model.whole("xxxxxxxxxa"), -1);
  EXPECT_EQ(model.whole("abcbc"), -1);
  EXPECT_EQ(model.whole("xyx"), -1);
  EXPECT_EQ(model.whole(""), -1);
}

}  // namespace
}  // namespace exeunt
