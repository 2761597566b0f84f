// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/byte_bpe.h"

#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/utf8.h"
#include "tests/fixtures/growth.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

// A vocabulary of all bytes but those of `without`, and what the merges ("a b") make.
struct Small {
  std::vector<std::pair<std::string, int32_t>> tokens;
  std::vector<std::pair<std::string, std::string>> pairs;

  explicit Small(std::vector<std::pair<std::string, std::string>> merges, std::string_view without = "")
      : pairs(std::move(merges)) {
    for (int byte = 0; byte < 256; ++byte) {
      if (without.find(static_cast<char>(byte)) != std::string_view::npos) continue;
      std::string text;
      append_utf8(text, byte_character(static_cast<uint8_t>(byte)));
      add(text);
    }
    for (const auto& [left, right] : pairs) add(left + right);
  }
  void add(const std::string& token) {
    for (const auto& entry : tokens) {
      if (entry.first == token) return;
    }
    tokens.emplace_back(token, static_cast<int32_t>(tokens.size()));
  }
  [[nodiscard]] Vocabulary vocabulary() const { return Vocabulary(tokens, "f"); }
  [[nodiscard]] ByteBpeModel model(ByteBpeModel::Options options = {}) const {
    const Vocabulary vocab = vocabulary();
    std::vector<BpeMerge> merges;
    for (const auto& [left, right] : pairs) {
      merges.push_back({*vocab.id(left), *vocab.id(right), *vocab.id(left + right)});
    }
    return {vocab, merges, options};
  }
};

std::vector<std::string> tokens(const Small& small, const ByteBpeModel& model, std::string_view word) {
  ByteBpeModel::Scratch scratch;
  model.encode(word, scratch);
  const Vocabulary vocabulary = small.vocabulary();
  std::vector<std::string> out;
  for (const WordToken& token : scratch.tokens) {
    out.push_back(fmt::format("{}@{}-{}", vocabulary.token(token.id), token.begin, token.end));
  }
  return out;
}

TEST(ByteBpe, AppliesEarliestThenLeftmostMerge) {
  const Small small({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}});
  EXPECT_THAT(tokens(small, small.model(), "abc"), ElementsAre("a@0-1", "bc@1-3"));
  EXPECT_THAT(tokens(small, small.model(), "ab"), ElementsAre("ab@0-2"));
  EXPECT_THAT(tokens(small, small.model(), "aaaaa"), ElementsAre("aa@0-2", "aaa@2-5"));
  EXPECT_THAT(tokens(small, small.model(), ""), ElementsAre());
}

TEST(ByteBpe, SplitsTokenItsMergesDoNotProduce) {
  Small small({std::pair("a", "b")});
  small.add("abc");
  EXPECT_THAT(tokens(small, small.model(), "abc"), ElementsAre("ab@0-2", "c@2-3"));
  EXPECT_THAT(tokens(small, small.model({.ignore_merges = true}), "abc"), ElementsAre("abc@0-3"));
  EXPECT_THAT(tokens(small, small.model({.ignore_merges = true}), "abcab"), ElementsAre("ab@0-2", "c@2-3", "ab@3-5"));
}

TEST(ByteBpe, LastOfEqualMergesWins) {
  const Small small({{"a", "b"}, {"b", "c"}, {"a", "b"}});
  EXPECT_THAT(tokens(small, small.model(), "abc"), ElementsAre("a@0-1", "bc@1-3"));
}

TEST(ByteBpe, DropsOrMarksBytesWithoutToken) {
  Small small({std::pair("a", "b")}, "xy\xC3\xA9");
  small.add("<unk>");
  const auto unknown = small.vocabulary().id("<unk>");
  // Dropped bytes move what follows, as the oracle has it.
  EXPECT_THAT(tokens(small, small.model(), "axb"), ElementsAre("ab@0-2"));
  EXPECT_THAT(tokens(small, small.model({.unknown = unknown}), "axyb"),
              ElementsAre("a@0-1", "<unk>@1-2", "<unk>@2-3", "b@3-4"));
  EXPECT_THAT(tokens(small, small.model({.unknown = unknown, .fuse_unknown = true}), "axyb"),
              ElementsAre("a@0-1", "<unk>@1-3", "b@3-4"));
  // é is two bytes, each written as a character of two bytes.
  EXPECT_THAT(tokens(small, small.model({.unknown = unknown, .fuse_unknown = true}),
                     "a\xC3\xA9"
                     "b"),
              ElementsAre("a@0-1", "<unk>@1-3", "b@3-4"));
}

TEST(ByteBpe, ByteFallbackUsesWrittenForm) {
  Small small({}, "x\xC3");
  small.add("<0x78>");
  small.add("<0xC3>");
  small.add("<0x83>");
  EXPECT_THAT(tokens(small, small.model({.byte_fallback = true}), "ax"), ElementsAre("a@0-1", "<0x78>@1-2"));
  EXPECT_THAT(tokens(small, small.model({.byte_fallback = true}), "\xC3"), ElementsAre("<0xC3>@0-1", "<0x83>@0-1"));
}

// The definition: join the best pair of all, one at a time.
std::vector<std::string> slow(const Small& small, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = small.pairs.size();
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (small.pairs[rank] != std::pair(parts[i], parts[i + 1])) continue;
        best = rank;
        place = i;
      }
    }
    if (best == small.pairs.size()) return parts;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(ByteBpe, MatchesDefinitionForShortAndLongWords) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<std::string, std::string>> pairs;
    std::vector<std::string> known{"a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      const std::string left = known[random() % known.size()];
      const std::string right = known[random() % known.size()];
      if (std::find(pairs.begin(), pairs.end(), std::pair(left, right)) != pairs.end()) continue;
      pairs.emplace_back(left, right);
      known.push_back(left + right);
    }
    std::shuffle(pairs.begin(), pairs.end(), random);
    const Small small(pairs);
    const ByteBpeModel model = small.model();
    for (const size_t size : {1U, 2U, 5U, 20U, 48U, 49U, 120U}) {
      std::string word(size, ' ');
      for (char& c : word) c = static_cast<char>('a' + random() % 3);
      ByteBpeModel::Scratch scratch;
      model.encode(word, scratch);
      std::vector<std::string> got;
      for (const WordToken& token : scratch.tokens) got.push_back(word.substr(token.begin, token.end - token.begin));
      EXPECT_EQ(got, slow(small, word));
    }
  }
}

TEST(ByteBpe, EncodesWordOfOneMegabyte) {
  const Small small({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  ByteBpeModel::Scratch scratch;
  small.model().encode(std::string(1 << 20, 'a'), scratch);
  EXPECT_EQ(scratch.tokens.size(), size_t{1} << 17);
}

// Long words keep candidates on a heap: "a b" is still on it when b has become "bc".
TEST(ByteBpe, DropsStaleCandidate) {
  const Small small({{"b", "c"}, {"a", "b"}, {"a", "bc"}});
  const ByteBpeModel model = small.model();
  EXPECT_THAT(tokens(small, model, "abcx"), ElementsAre("abc@0-3", "x@3-4"));
  EXPECT_EQ(tokens(small, model, std::string(60, 'x') + "abc").back(), "abc@60-63");
}

// Pairs whose places would all be next to each other with the golden ratio, which everyone knows.
TEST(ByteBpe, CollidingMergesTakeLinearTime) {
  const Vocabulary vocabulary = Small(std::vector<std::pair<std::string, std::string>>{}).vocabulary();
  const auto chosen = [](size_t count) {
    std::vector<BpeMerge> merges;
    for (uint64_t right = 0; merges.size() < count; ++right) {
      const uint64_t key = ((right % 977) << 32) | right;
      if ((key * 0x9E3779B97F4A7C15U) >> 55 != 0) continue;
      merges.push_back({static_cast<int32_t>(right % 977), static_cast<int32_t>(right), 0});
    }
    return merges;
  };
  EXPECT_LT(growth_exponent(2000, chosen,
                            [&](const std::vector<BpeMerge>& merges) { (void)ByteBpeModel(vocabulary, merges, {}); }),
            1.5);
}

}  // namespace
}  // namespace exeunt
