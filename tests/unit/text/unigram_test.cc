// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unigram.h"

#include <cmath>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fixtures/growth.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

std::vector<int32_t> ids(const UnigramModel& model, std::string_view word) {
  UnigramModel::Scratch scratch;
  model.encode(word, scratch);
  std::vector<int32_t> out;
  for (const WordToken& token : scratch.tokens) out.push_back(token.id);
  return out;
}

std::vector<std::string> texts(const UnigramModel& model, std::string_view word) {
  UnigramModel::Scratch scratch;
  model.encode(word, scratch);
  std::vector<std::string> out;
  for (const WordToken& token : scratch.tokens) out.emplace_back(word.substr(token.begin, token.end - token.begin));
  return out;
}

TEST(Unigram, ChoosesLargestSumOfScores) {
  const UnigramModel model({{"<unk>", 0}, {"a", -1}, {"b", -1}, {"ab", -1.5}, {"bc", -0.1}, {"c", -3}, {"abc", -2}},
                           {});
  EXPECT_THAT(texts(model, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(texts(model, "ab"), ElementsAre("ab"));
  EXPECT_THAT(texts(model, "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(ids(model, ""), ElementsAre());
}

TEST(Unigram, KeepsFirstOfEqualSums) {
  // "abc" costs -3 as abc, as a+bc and as ab+c: the piece that began first wins.
  const UnigramModel model({{"<unk>", 0}, {"a", -1}, {"bc", -2}, {"ab", -2}, {"c", -1}, {"abc", -3}}, {});
  EXPECT_THAT(texts(model, "abc"), ElementsAre("abc"));
  const UnigramModel without({{"<unk>", 0}, {"a", -1}, {"bc", -2}, {"ab", -2}, {"c", -1}}, {});
  EXPECT_THAT(texts(without, "abc"), ElementsAre("a", "bc"));
}

TEST(Unigram, FusesUnknownCharactersWhenSet) {
  const UnigramModel::Vocabulary pieces{{"<unk>", 0}, {"a", -1}, {"é", -2}};
  EXPECT_THAT(texts(UnigramModel(pieces, {}), "a中文aé☃"), ElementsAre("a", "中文", "a", "é", "☃"));
  EXPECT_THAT(ids(UnigramModel(pieces, {}), "a中文a"), ElementsAre(1, 0, 1));
  EXPECT_THAT(texts(UnigramModel(pieces, {.fuse_unknown = false}), "中文a"), ElementsAre("中", "文", "a"));
}

// An unknown character costs 10 more than the worst piece, here 18.
TEST(Unigram, UnknownCharacterCostsTenMoreThanWorstPiece) {
  const UnigramModel model({{"<unk>", 0}, {"xy", -8}, {"z", -8}, {"w", -8}, {"yz", -1}, {"yzw", -1}}, {});
  EXPECT_THAT(texts(model, "xyz"), ElementsAre("xy", "z")) << "16 against 18 + 1";
  EXPECT_THAT(texts(model, "xyzw"), ElementsAre("x", "yzw")) << "24 against 18 + 1";
}

TEST(Unigram, UnknownPieceFusesWithUnknownCharacters) {
  const UnigramModel model({{"<unk>", 0}, {"a", -1}}, {});
  EXPECT_THAT(ids(model, "<unk>"), ElementsAre(0));
  EXPECT_THAT(texts(model, "x<unk>y"), ElementsAre("x<unk>y"));
}

TEST(Unigram, ByteFallbackNeedsAllBytes) {
  UnigramModel::Vocabulary pieces{{"<unk>", 0}, {"a", -1}, {"<0xC3>", -5}, {"<0xA9>", -5}};
  const UnigramModel model(pieces, {.byte_fallback = true});
  EXPECT_THAT(ids(model, "aé"), ElementsAre(1, 2, 3));
  EXPECT_THAT(texts(model, "aé"), ElementsAre("a", "é", "é"));  // each byte's token stands for the whole run
  EXPECT_THAT(ids(model, "éü"), ElementsAre(0));
  EXPECT_THAT(ids(UnigramModel(pieces, {}), "é"), ElementsAre(0));
}

TEST(Unigram, SplitsPieceWithBetterSegmentation) {
  const UnigramModel model({{"<unk>", 0}, {"a", -1}, {"b", -1}, {"ab", -5}}, {});
  EXPECT_THAT(texts(model, "ab"), ElementsAre("a", "b"));
}

// The definition: try every cut.
double best_sum(const std::map<std::string, double>& scores, std::string_view word, double unknown) {
  if (word.empty()) return 0;
  double best = -INFINITY;
  for (size_t size = 1; size <= word.size(); ++size) {
    const auto piece = scores.find(std::string(word.substr(0, size)));
    if (piece == scores.end() && size != 1) continue;
    const double score = piece == scores.end() ? unknown : piece->second;
    best = std::max(best, score + best_sum(scores, word.substr(size), unknown));
  }
  return best;
}

TEST(Unigram, FindsBestSegmentation) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    UnigramModel::Vocabulary pieces{{"<unk>", 0}};
    std::map<std::string, double> scores{{"<unk>", 0}};
    double worst = 0;
    for (int i = 0; i < 20; ++i) {
      std::string piece(1 + random() % 4, ' ');
      for (char& c : piece) c = static_cast<char>('a' + random() % 3);
      const double score = -static_cast<double>(random() % 40) / 4;
      if (!scores.emplace(piece, score).second) continue;
      pieces.emplace_back(piece, score);
      worst = std::min(worst, score);
    }
    const UnigramModel model(pieces, {.fuse_unknown = false});
    std::string word(1 + random() % 9, ' ');
    for (char& c : word) c = static_cast<char>('a' + random() % 4);
    double sum = 0;
    for (const std::string& text : texts(model, word)) sum += scores.contains(text) ? scores[text] : worst - 10;
    EXPECT_DOUBLE_EQ(sum, best_sum(scores, word, worst - 10)) << word;
  }
}

// All prefixes of one long piece: as many bytes as the square of its length.
TEST(Unigram, NestedPiecesTakeLinearTime) {
  const auto nested = [](size_t longest) {
    UnigramModel::Vocabulary pieces{{"<unk>", 0}};
    for (size_t size = 1; size <= longest; ++size) pieces.emplace_back(std::string(size, 'a'), -1);
    return pieces;
  };
  EXPECT_LT(growth_exponent(128, nested, [](const auto& pieces) { (void)UnigramModel(pieces, {}); }), 2.5);
  EXPECT_THAT(ids(UnigramModel(nested(1024), {}), std::string(1024, 'a')), ElementsAre(1024));
}

TEST(Unigram, EncodesWordOfOneMegabyte) {
  const UnigramModel model({{"<unk>", 0}, {"a", -1}, {"aaaaaaaa", -2}}, {});
  EXPECT_EQ(ids(model, std::string(1 << 20, 'a')).size(), size_t{1} << 17);
  EXPECT_EQ(ids(model, std::string(1 << 20, 'x')).size(), 1U);
}

}  // namespace
}  // namespace exeunt
