// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/byte_trie.h"

#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(ByteTrie, FindsEveryKeyAndNothingElse) {
  std::mt19937 random(7);
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) {
    std::string key(1 + random() % 6, '\0');
    // Few letters make shared prefixes; all bytes make wide rows.
    for (char& c : key) c = static_cast<char>(i % 2 == 0 ? 'a' + random() % 3 : random() % 256);
    keys.push_back(key);
  }
  std::map<std::string, int32_t> last;
  for (size_t i = 0; i < keys.size(); ++i) last[keys[i]] = static_cast<int32_t>(i);
  const ByteTrie trie(std::vector<std::string_view>(keys.begin(), keys.end()));
  for (const std::string& key : keys) {
    EXPECT_EQ(trie.find(key), last[key]);
    for (const std::string& other : {key + 'a', key + '\0', key.substr(0, key.size() - 1)}) {
      const auto found = last.find(other);
      EXPECT_EQ(trie.find(other), found == last.end() ? std::nullopt : std::optional(found->second));
    }
  }
}

TEST(ByteTrie, WalkFindsKeysThatArePrefixes) {
  const std::vector<std::string_view> keys{"a", "abc", "b", "ab"};
  const ByteTrie trie(keys);
  uint32_t node = ByteTrie::kRoot;
  std::vector<int32_t> met;
  for (const char c : std::string_view("abcd")) {
    if (!trie.step(node, static_cast<uint8_t>(c))) break;
    met.push_back(trie.value(node));
  }
  EXPECT_EQ(met, (std::vector<int32_t>{0, 3, 1}));
}

TEST(ByteTrie, IgnoresEmptyKeys) {
  const std::vector<std::string_view> keys{"", "a", ""};
  EXPECT_EQ(ByteTrie(keys).find(""), std::nullopt);
  EXPECT_EQ(ByteTrie(keys).find("a"), 1);
  EXPECT_EQ(ByteTrie().find("a"), std::nullopt);
}

TEST(ByteTrie, HoldsALongKeyAndAFullRow) {
  std::vector<std::string> texts{std::string(100000, 'x')};
  for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string("k") + static_cast<char>(byte));
  const ByteTrie trie(std::vector<std::string_view>(texts.begin(), texts.end()));
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(trie.find(texts[i]), static_cast<int32_t>(i));
}

}  // namespace
}  // namespace exeunt
