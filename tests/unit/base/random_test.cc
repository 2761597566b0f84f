// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/random.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

// The first numbers of the authors' splitmix64.c for the seed 1234567.
TEST(Random, DrawsTheNumbersOfSplitMix64) {
  SplitMix64 random(1234567);
  for (const uint64_t wanted : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U,
                                16408922859458223821U}) {
    EXPECT_EQ(random.next(), wanted);
  }
}

TEST(Random, DrawsBelowABound) {
  SplitMix64 random(1234567), same(1234567);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(random.below(10), same.next() % 10);
  EXPECT_EQ(random.below(1), 0U);
  // Of the bound 3 · 2^62 a quarter of the numbers is drawn again.
  SplitMix64 wide(1234567), each(1234567);
  const uint64_t bound = uint64_t{3} << 62;
  std::vector<uint64_t> kept;
  while (kept.size() < 5) {
    if (const uint64_t drawn = each.next(); drawn >= uint64_t{1} << 62) kept.push_back(drawn % bound);
  }
  for (const uint64_t one : kept) EXPECT_EQ(wide.below(bound), one);
}

TEST(Random, ShufflesBySwapsFromTheEnd) {
  SplitMix64 random(1), same(1);
  std::vector<int> items = {0, 1, 2, 3, 4}, expected = items;
  shuffle(items, random);
  for (size_t left = 5; left > 1; --left) std::swap(expected[left - 1], expected[same.below(left)]);
  EXPECT_EQ(items, expected);
  EXPECT_NE(items, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_THAT(items, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace exeunt
