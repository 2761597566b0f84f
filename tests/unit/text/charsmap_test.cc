// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/charsmap.h"

#include <map>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;
using testing::HasSubstr;

std::string little_endian(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(static_cast<uint8_t>(value >> (8 * i)));
  return out;
}

std::string join(const std::vector<uint32_t>& units, const std::string& replacements) {
  std::string out = little_endian(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) out += little_endian(unit);
  return out + replacements;
}

// A map of keys of one or two bytes, laid out plainly: the root's children from 256 on, every leaf or second row in a
// block of its own.
std::string map_of(const std::map<std::string, std::string>& entries) {
  std::vector<uint32_t> units(512, 0);
  units[0] = 256U << 10;
  std::string replacements;
  const auto row_of = [&](uint32_t node) {  // the block of a node, made on first use
    if (units[node] >> 10 == 0) {
      const auto block = static_cast<uint32_t>(units.size());
      units.resize(units.size() + 256, 0);
      units[node] |= (node ^ block) << 10;
    }
    return node ^ (units[node] >> 10);
  };
  for (const auto& [key, value] : entries) {
    uint32_t node = 0;
    for (const char c : key) {
      const auto byte = static_cast<uint8_t>(c);
      const uint32_t child = (node == 0 ? 256U : row_of(node)) ^ byte;
      units[child] |= byte;
      node = child;
    }
    const uint32_t leaf = row_of(node);
    units[node] |= 1U << 8;
    units[leaf] = 0x80000000U | static_cast<uint32_t>(replacements.size());
    replacements += value + '\0';
  }
  return join(units, replacements);
}

NormalizedText applied(const Charsmap& map, std::string_view text) {
  NormalizedText out(text, 0);
  apply_charsmap(map, out);
  return out;
}

TEST(Charsmap, ReplacesKnownText) {
  const Charsmap map(map_of({{"\t", " "}, {"x", "yz"}, {"\u00BD", "1/2"}}), "f");
  EXPECT_EQ(map.find("\t"), " ");
  EXPECT_EQ(map.find("q"), std::nullopt);
  EXPECT_EQ(applied(map, "a\tbx\u00BDc").text(), "a byz1/2c");
  EXPECT_TRUE(applied(map, "abc").plain());
}

TEST(Charsmap, ShortestEntryWins) {
  const Charsmap map(map_of({{"a", "1"}, {"ab", "2"}}), "f");
  EXPECT_EQ(map.find("ab"), "1");
}

TEST(Charsmap, ReplacesShortClusterAsWhole) {
  const Charsmap map(map_of({{"e", "E"}}), "f");
  EXPECT_EQ(applied(map, "e\u0301e").text(), "EE");                                // the accent goes with its base
  EXPECT_EQ(applied(map, "e\u0301\u0302\u0303e").text(), "E\u0301\u0302\u0303E");  // seven bytes: one by one
}

TEST(Charsmap, OffsetsFollowWhatWasReplaced) {
  const Charsmap map(map_of({{"x", "yz"}, {"e", "E"}, {"\x01", ""}}), "f");
  const NormalizedText grown = applied(map, "axb");
  EXPECT_EQ(grown.text(), "ayzb");
  EXPECT_EQ(grown.origin(1), Offset(1, 2));
  EXPECT_EQ(grown.origin(2), Offset(1, 2));
  EXPECT_EQ(grown.origin(3), Offset(2, 3));
  const NormalizedText shrunk = applied(map, "ae\u0301b");
  EXPECT_EQ(shrunk.text(), "aEb");
  EXPECT_EQ(shrunk.origin(2), Offset(3, 4));
  const NormalizedText vanished = applied(map,
                                          "a\x01"
                                          "b");
  EXPECT_EQ(vanished.text(), "ab");
  EXPECT_EQ(vanished.origin(1), Offset(2, 3));
  // At the very start nothing is there to take its place: the oracle's places slip, and so do ours.
  const NormalizedText slipped = applied(map,
                                         "\x01"
                                         "ab");
  EXPECT_EQ(slipped.text(), "ab");
  EXPECT_EQ(slipped.origin(0), Offset(0, 1));
  EXPECT_EQ(slipped.origin(1), Offset(1, 2));
  EXPECT_TRUE(applied(map, "\x01").empty());
}

TEST(Charsmap, NulHasNoEntry) {
  const Charsmap map(map_of({{"x", "y"}}), "f");
  EXPECT_EQ(applied(map, "\0x"s).text(), "\0y"s);
}

TEST(Charsmap, ReadsBase64) {
  EXPECT_EQ(parse_charsmap("BAAAAAAAAABh", "f")->find("a"), std::nullopt);
  const auto message = [](std::string_view text) {
    return std::string(error_of([&] { (void)parse_charsmap(text, "f"); }).what());
  };
  EXPECT_THAT(message("AAA*"), HasSubstr("f: precompiled_charsmap: character 4 is not base64"));
  for (const char* cut : {"AAAAA", "AAAAAA", "AAAAAAA"}) EXPECT_THAT(message(cut), HasSubstr("characters is cut off"));
  EXPECT_THAT(message("AAA="), HasSubstr("precompiled_charsmap: got 2 bytes"));
  EXPECT_THAT(message("AA===="), HasSubstr("character"));
}

TEST(Charsmap, RejectsDamagedTables) {
  const auto message = [](const std::string& bytes) {
    const Error error = error_of([&] { (void)Charsmap(bytes, "f"); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what());
  };
  EXPECT_THAT(message(""), HasSubstr("f: precompiled_charsmap: got 0 bytes with a trie of 0"));
  EXPECT_THAT(message(little_endian(0)), HasSubstr("with a trie of 0"));
  EXPECT_THAT(message(little_endian(6) + "abcdef"), HasSubstr("with a trie of 6"));
  EXPECT_THAT(message(little_endian(8) + "abcd"), HasSubstr("got 8 bytes with a trie of 8"));
  EXPECT_THAT(message(join({0}, "\xff")), HasSubstr("byte 0 of the replacements is not UTF-8"));
  EXPECT_THAT(message(join({0x100U | (5U << 10)}, "a")), HasSubstr("unit 0 leads outside the 1 bytes"));
  EXPECT_THAT(message(join({0x100U | (1U << 10), 0x80000009U}, "a")), HasSubstr("unit 0 leads outside"));
  EXPECT_THAT(message(join({0x100U | (1U << 10), 0x80000001U}, "é")), HasSubstr("unit 0 leads outside"));
}

TEST(Charsmap, RejectsTrieThatLeadsBack) {
  std::vector<uint32_t> units(512, 0);
  units[0] = 256U << 10;
  units[256 ^ 'a'] = 'a' | (uint32_t{'a'} << 10);  // its children are the root's
  const Charsmap map(join(units, ""), "f");
  EXPECT_EQ(map.find_longest(std::string(256, 'a')), std::nullopt);
  EXPECT_THAT(error_of([&] { (void)map.find_longest(std::string(257, 'a')); }).what(),
              HasSubstr("precompiled_charsmap: got an entry of more than 256 bytes"));
}

TEST(Charsmap, IgnoresTrieUnitsOutOfBounds) {
  const Charsmap map(join({1000U << 10}, ""), "f");
  EXPECT_EQ(map.find("a"), std::nullopt);
}

}  // namespace
}  // namespace exeunt
