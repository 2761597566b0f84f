// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/lru_map.h"

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <string>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

TEST(LruMap, ForgetsValueUsedLongestAgo) {
  LruMap<std::string, std::unique_ptr<int>> map(2);
  map.use("a") = std::make_unique<int>(1);
  map.use("b") = std::make_unique<int>(2);
  EXPECT_EQ(*map.use("a"), 1);
  EXPECT_EQ(map.use("c"), nullptr);  // takes the place of b
  EXPECT_EQ(map.size(), 2U);
  EXPECT_NE(map.use("a"), nullptr);
  EXPECT_EQ(map.use("b"), nullptr);
}

TEST(LruMap, KeepsAtLeastOneValue) {
  LruMap<int, int> map(0);
  map.use(1) = 5;
  EXPECT_EQ(map.use(1), 5);
  EXPECT_EQ(map.size(), 1U);
}

TEST(LruMap, MatchesListInOrderOfUse) {
  constexpr size_t kMost = 8;
  LruMap<int, int> map(kMost);
  std::list<int> order;  // the last used first
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const int key = static_cast<int>(random() % 20);
    const auto known = std::find(order.begin(), order.end(), key);
    EXPECT_EQ(map.use(key), known == order.end() ? 0 : key + 1);
    map.use(key) = key + 1;
    if (known != order.end()) order.erase(known);
    order.push_front(key);
    if (order.size() > kMost) order.pop_back();
    ASSERT_EQ(map.size(), order.size());
  }
}

}  // namespace
}  // namespace exeunt
