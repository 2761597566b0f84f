// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/batches.h"

#include <algorithm>
#include <set>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

std::vector<int64_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> out = {0};
  for (const int64_t length : lengths) out.push_back(out.back() + length);
  return out;
}

// Lengths 1 to 128 in a fixed disorder.
std::vector<int64_t> many_lengths(size_t rows) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < rows; ++i) out.push_back(1 + static_cast<int64_t>(i * 7919 % 128));
  return out;
}

std::vector<size_t> flat(const std::vector<Batch>& batches) {
  std::vector<size_t> out;
  for (const Batch& batch : batches) out.insert(out.end(), batch.begin(), batch.end());
  return out;
}

void expect_every_row_once(const std::vector<Batch>& batches, size_t rows) {
  const std::vector<size_t> all = flat(batches);
  EXPECT_EQ(all.size(), rows);
  EXPECT_EQ(std::set<size_t>(all.begin(), all.end()).size(), rows);
  for (const Batch& batch : batches) EXPECT_FALSE(batch.empty());
}

int64_t padded_tokens(const std::vector<Batch>& batches, const std::vector<int64_t>& lengths) {
  int64_t sum = 0;
  for (const Batch& batch : batches) {
    int64_t longest = 0;
    for (const size_t row : batch) longest = std::max(longest, lengths[row]);
    sum += longest * static_cast<int64_t>(batch.size());
  }
  return sum;
}

TEST(Batches, ShufflingKeepsEveryRowAndIsDeterministic) {
  const auto offsets = offsets_of(many_lengths(1000));
  const auto first = shuffled_batches(offsets, {.batch = 32});
  expect_every_row_once(first, 1000);
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(first.back().size(), 8U);
  EXPECT_EQ(first, shuffled_batches(offsets, {.batch = 32}));
  EXPECT_NE(first, shuffled_batches(offsets, {.batch = 32, .epoch = 1}));
  EXPECT_NE(first, shuffled_batches(offsets, {.batch = 32, .seed = 43}));
  EXPECT_NE(shuffled_batches(offsets, {.batch = 32, .seed = 42, .epoch = 1}),
            shuffled_batches(offsets, {.batch = 32, .seed = 43, .epoch = 0}));
}

TEST(Batches, OrderOfASeedIsStable) {
  const auto offsets = offsets_of(std::vector<int64_t>(8, 1));
  EXPECT_THAT(flat(shuffled_batches(offsets, {.batch = 3, .seed = 42})), ElementsAre(3, 6, 0, 7, 1, 2, 5, 4));
}

// SplitMix64 maps 0 to 0, so this epoch's first number is 0: below 2^64 mod 5 = 1, hence drawn again.
TEST(Batches, RejectsBiasedDraws) {
  const auto offsets = offsets_of(std::vector<int64_t>(5, 1));
  EXPECT_THAT(flat(shuffled_batches(offsets, {.batch = 5, .seed = 42, .epoch = 0xa3f1542050ca1556})),
              ElementsAre(2, 3, 1, 4, 0));
}

TEST(Batches, ShufflesUniformly) {
  const auto offsets = offsets_of(std::vector<int64_t>(5, 1));
  std::vector<std::vector<int>> seen(5, std::vector<int>(5, 0));
  constexpr int kRounds = 20'000;
  for (uint64_t epoch = 0; epoch < kRounds; ++epoch) {
    const auto order = flat(shuffled_batches(offsets, {.batch = 5, .epoch = epoch}));
    for (size_t place = 0; place < order.size(); ++place) ++seen[order[place]][place];
  }
  for (const auto& row : seen) {
    for (const int count : row) EXPECT_NEAR(count, kRounds / 5, 300);  // over five standard deviations
  }
}

TEST(Batches, WindowLowersPaddingAndKeepsEveryRow) {
  const auto lengths = many_lengths(2000);
  const auto offsets = offsets_of(lengths);
  const auto plain = shuffled_batches(offsets, {.batch = 32});
  const auto windowed = shuffled_batches(offsets, {.batch = 32, .window = 16});
  expect_every_row_once(windowed, 2000);
  EXPECT_LT(padded_tokens(windowed, lengths), padded_tokens(plain, lengths) * 7 / 10);
  // Sorted windows alone would go from their longest batch to their shortest every time.
  EXPECT_FALSE(std::is_sorted(windowed.begin(), windowed.begin() + 16,
                              [&](const Batch& a, const Batch& b) { return lengths[a.front()] > lengths[b.front()]; }));
}

TEST(Batches, RowsOfOneLengthKeepTheirOrder) {
  EXPECT_THAT(bucketed_batches(offsets_of({2, 3, 2, 3, 2}), {.rows = 2, .tokens = 100}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(0, 2), ElementsAre(4)));
}

TEST(Batches, BucketsStayWithinTheirLimits) {
  const auto lengths = many_lengths(1500);
  const auto offsets = offsets_of(lengths);
  const auto batches = bucketed_batches(offsets, {.rows = 16, .tokens = 500});
  expect_every_row_once(batches, 1500);
  int64_t before = 1000;
  for (const Batch& batch : batches) {
    EXPECT_LE(batch.size(), 16U);
    const int64_t longest = lengths[batch.front()];
    EXPECT_LE(longest * static_cast<int64_t>(batch.size()), 500);
    EXPECT_LE(longest, before);
    before = lengths[batch.back()];
  }
}

TEST(Batches, RowOverLimitGoesAlone) {
  const auto batches = bucketed_batches(offsets_of({3, 50, 3}), {.rows = 8, .tokens = 10});
  EXPECT_THAT(batches, ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_TRUE(bucketed_batches(offsets_of({}), {}).empty());
}

}  // namespace
}  // namespace exeunt
