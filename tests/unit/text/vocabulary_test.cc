// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/vocabulary.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using Pairs = std::vector<std::pair<std::string, int32_t>>;

TEST(Vocabulary, FindsTokensAndIdsBothWays) {
  Pairs pairs;
  for (int i = 0; i < 1000; ++i) pairs.emplace_back("t" + std::to_string(i * 7919 % 1000), i);
  const Vocabulary vocabulary(pairs, "f");
  for (const auto& [token, id] : pairs) {
    EXPECT_EQ(vocabulary.id(token), id);
    EXPECT_EQ(vocabulary.token(id), token);
  }
  EXPECT_EQ(vocabulary.id("t1000"), std::nullopt);
  EXPECT_EQ(vocabulary.id(""), std::nullopt);
  EXPECT_EQ(vocabulary.token(1000), "");
  EXPECT_EQ(vocabulary.token(-1), "");
}

// Whoever makes a file knows the standard library's hash, and finds such tokens by trying.
TEST(Vocabulary, CollidingTokensTakeLinearTime) {
  const auto chosen = [](size_t count) {
    constexpr size_t kFew = 64, kBuckets = 1 << 15;  // a multiple of those of both sizes
    Pairs pairs;
    for (size_t i = 0; pairs.size() < count; ++i) {
      std::string token = std::to_string(i);
      if (std::hash<std::string_view>{}(token) % kBuckets < kFew)
        pairs.emplace_back(std::move(token), static_cast<int32_t>(pairs.size()));
    }
    return pairs;
  };
  EXPECT_LT(growth_exponent(2000, chosen, [](const Pairs& pairs) { (void)Vocabulary(pairs, "f"); }), 1.5);
}

TEST(Vocabulary, AllowsGapsInIds) {
  const Vocabulary vocabulary({{"a", 0}, {"b", 9}}, "f");
  EXPECT_EQ(vocabulary.count(), 2U);
  EXPECT_EQ(vocabulary.id_limit(), 10);
  EXPECT_FALSE(vocabulary.has(5));
  EXPECT_TRUE(vocabulary.has(9));
}

TEST(Vocabulary, EmptyVocabularyFindsNothing) {
  const Vocabulary vocabulary(Pairs{}, "f");
  EXPECT_EQ(vocabulary.id("a"), std::nullopt);
  EXPECT_EQ(vocabulary.id_limit(), 0);
  EXPECT_EQ(Vocabulary().id("a"), std::nullopt);
}

TEST(Vocabulary, RejectsDuplicateTokenOrId) {
  EXPECT_THAT(error_of([] {
                Vocabulary({{"a", 0}, {"b", 0}}, "f");
              }).what(),
              HasSubstr("f: id 0 belongs to both 'a' and 'b'"));
  EXPECT_THAT(error_of([] {
                Vocabulary({{"a", 0}, {"a", 1}}, "f");
              }).what(),
              HasSubstr("f: duplicate token 'a', with ids 0 and 1"));
}

TEST(Vocabulary, RejectsHugeIdBeforeAllocation) {
  EXPECT_THAT(error_of([] { Vocabulary({{"a", INT32_MAX}}, "f"); }).what(), HasSubstr("got id 2147483647"));
  EXPECT_THAT(error_of([] { Vocabulary({{"a", -1}}, "f"); }).what(), HasSubstr("got id -1"));
  EXPECT_THAT(error_of([] { Vocabulary({{"a", 65541}}, "f"); }).what(), HasSubstr("got id 65541, want 0 to 65540"));
  EXPECT_EQ(Vocabulary({{"a", 65540}}, "f").id_limit(), 65541);
}

TEST(Vocabulary, RejectsInvalidTokenIdsInJson) {
  EXPECT_EQ(read_token_ids(parse_json(R"({"a":1,"b":0})", "f"), "f").size(), 2U);
  const auto message = [](const char* text) {
    return std::string(error_of([&] { (void)read_token_ids(parse_json(text, "f"), "f"); }).what());
  };
  EXPECT_THAT(message("[]"), HasSubstr("want an object of tokens and ids"));
  EXPECT_THAT(message(R"({"a":"1"})"), HasSubstr("token 'a': got \"1\", want a whole number"));
  EXPECT_THAT(message(R"({"a":1.5})"), HasSubstr("token 'a': got 1.5"));
  EXPECT_THAT(message(R"({"a":18446744073709551615})"), HasSubstr("token 'a': got id"));
  EXPECT_THAT(message(R"({"a":-3})"), HasSubstr("token 'a': got id -3"));
}

}  // namespace
}  // namespace exeunt
