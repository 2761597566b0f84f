// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;

// Sentences of these lengths; token ids count up from 10.
Corpus corpus_of(const std::vector<std::vector<int>>& documents) {
  Corpus corpus;
  for (const std::vector<int>& document : documents) {
    for (const int length : document) {
      for (int i = 0; i < length; ++i) corpus.ids.push_back(10 + static_cast<int32_t>(corpus.ids.size()) % 90);
      corpus.sentences.push_back(static_cast<int64_t>(corpus.ids.size()));
    }
    corpus.documents.push_back(static_cast<int64_t>(corpus.sentences.size()) - 1);
  }
  return corpus;
}

PretrainShape shape_of(int tokens) {
  return {.tokens = tokens,
          .mask_share = 0.15,
          .cls = 1,
          .sep = 2,
          .mask = 3,
          .pad = 0,
          .unknown = 4,
          .vocab = 100,
          .segments = 2};
}

std::vector<std::pair<int64_t, int64_t>> ranges(const std::vector<PackedRow>& rows) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const PackedRow& row : rows) out.emplace_back(row.first, row.last);
  return out;
}

TEST(PackedRows, HoldWholeSentencesOfOneDocument) {
  const Corpus corpus = corpus_of({{3, 3, 2, 7}, {1}, {7, 1}});
  using P = std::pair<int64_t, int64_t>;
  EXPECT_THAT(ranges(pack_rows(corpus, shape_of(10))),
              ElementsAre(P(0, 2), P(2, 3), P(3, 4), P(4, 5), P(5, 6), P(6, 7)));
  EXPECT_THAT(ranges(pack_rows(corpus, shape_of(11))), ElementsAre(P(0, 3), P(3, 4), P(4, 5), P(5, 7)));
}

TEST(PackedRows, AreHeldOutByWholeDocuments) {
  const Corpus corpus = corpus_of({{3, 7}, {7}, {7, 7}, {2}, {2}});
  const std::vector<PackedRow> rows = pack_rows(corpus, shape_of(10));
  const HeldOutRows split = hold_out_documents(corpus, rows, 0.33);
  using P = std::pair<int64_t, int64_t>;
  EXPECT_THAT(ranges(split.held_out), ElementsAre(P(3, 4), P(4, 5)));
  EXPECT_EQ(split.train.size() + split.held_out.size(), rows.size());
  EXPECT_TRUE(hold_out_documents(corpus, rows, 0).held_out.empty());
  EXPECT_THAT(ranges(hold_out_documents(corpus, rows, 1).held_out), ElementsAre(P(2, 3), P(5, 6)))
      << "every second document at most";
}

// A row's tokens with what was hidden put back.
std::vector<int64_t> restored(const PretrainBatch& batch, const PretrainShape& shape, int64_t row) {
  std::vector<int64_t> ids(batch.ids.begin() + row * shape.tokens, batch.ids.begin() + (row + 1) * shape.tokens);
  for (int64_t slot = row * shape.slots(); slot < (row + 1) * shape.slots(); ++slot) {
    const auto at = static_cast<size_t>(slot);
    if (batch.weight[at] > 0) ids[static_cast<size_t>(batch.places[at] - row * shape.tokens)] = batch.gold[at];
  }
  return ids;
}

TEST(PretrainBatches, AreCutBetweenSentencesAndSwappedHalfOfTheTime) {
  const Corpus corpus = corpus_of({{2, 3, 2}});
  const PretrainShape shape = shape_of(12);
  const std::vector<PackedRow> rows = pack_rows(corpus, shape);
  ASSERT_EQ(rows.size(), 1U);
  const std::vector<int64_t> which{0};
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < 4000; ++epoch) {
    const PretrainBatch batch = make_pretrain_batch(corpus, rows, which, shape, {.seed = 7, .epoch = epoch});
    const std::vector<int64_t> ids = restored(batch, shape, 0);
    const bool swapped = ids[1] != 10;
    EXPECT_EQ(batch.order[0], swapped ? 1 : 0);
    EXPECT_EQ(batch.order_weight[0], 1);
    ++seen[ids];
    // Types change behind the first [SEP]; padding is not real.
    const auto sep = std::find(ids.begin(), ids.end(), 2) - ids.begin();
    for (int64_t t = 0; t < shape.tokens; ++t) {
      EXPECT_EQ(batch.types[static_cast<size_t>(t)], t > sep && t < 10 ? 1 : 0);
      EXPECT_EQ(batch.real[static_cast<size_t>(t)], t < 10 ? 1 : 0);
    }
  }
  ASSERT_EQ(seen.size(), 4U);  // two cuts, two orders
  const std::vector<int64_t> early{1, 10, 11, 2, 12, 13, 14, 15, 16, 2, 0, 0},
      late{1, 15, 16, 2, 10, 11, 12, 13, 14, 2, 0, 0};
  EXPECT_TRUE(seen.contains(early));
  EXPECT_TRUE(seen.contains(late));
  for (const auto& [ids, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(PretrainBatches, HideTheShareOfTokensThatIsAskedForInThreeWays) {
  const Corpus corpus = corpus_of({{40, 60}, {20}});
  const PretrainShape shape = shape_of(103);
  EXPECT_EQ(shape.slots(), 15);
  const std::vector<PackedRow> rows = pack_rows(corpus, shape);
  const std::vector<int64_t> which{0, 1};
  int masked = 0, kept = 0, other = 0;
  for (uint64_t epoch = 0; epoch < 400; ++epoch) {
    const PretrainBatch batch = make_pretrain_batch(corpus, rows, which, shape, {.seed = 1, .epoch = epoch});
    std::set<int64_t> places;
    for (size_t slot = 0; slot < batch.weight.size(); ++slot) {
      if (batch.weight[slot] == 0) continue;
      EXPECT_TRUE(places.insert(batch.places[slot]).second);
      const int64_t now = batch.ids[static_cast<size_t>(batch.places[slot])];
      EXPECT_GE(batch.gold[slot], 10);  // no special token is hidden
      EXPECT_TRUE(now >= 5 || now == shape.mask);
      ++(now == shape.mask ? masked : now == batch.gold[slot] ? kept : other);
    }
    EXPECT_EQ(places.size(), 18U);        // 15 of 100 and 3 of 20
    EXPECT_EQ(batch.order_weight[1], 0);  // one sentence has no order
  }
  const double all = masked + kept + other;
  EXPECT_NEAR(masked / all, 0.8, 0.02);
  EXPECT_NEAR(kept / all, 0.1, 0.02);
  EXPECT_NEAR(other / all, 0.1, 0.02);
}

// The same on every machine: rows, cuts, order and what is hidden.
TEST(PretrainBatches, AreFixedBySeedEpochAndRow) {
  const Corpus corpus = corpus_of({{4, 3, 5}, {6}});
  const PretrainShape shape = shape_of(16);
  const std::vector<PackedRow> rows = pack_rows(corpus, shape);
  const std::vector<int64_t> which{1, 0};
  const PretrainBatch batch = make_pretrain_batch(corpus, rows, which, shape, {.seed = 3, .epoch = 1});
  EXPECT_EQ(batch.rows, 2);
  EXPECT_THAT(batch.ids, ElementsAre(1, 22, 3, 24, 25, 26, 27, 2, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                     1, 10, 3, 12, 13, 2, 14, 3, 16, 17, 18, 19, 20, 21, 2, 0));
  for (size_t at = 0; at < 32; ++at) {
    EXPECT_EQ(batch.types[at], at > 21 && at < 31 ? 1 : 0) << at;
    EXPECT_EQ(batch.real[at], at < 8 || (at > 15 && at < 31) ? 1 : 0) << at;
  }
  EXPECT_THAT(batch.order, ElementsAre(0, 0));
  EXPECT_THAT(batch.order_weight, ElementsAre(0, 1));
  EXPECT_THAT(batch.places, ElementsAre(2, 0, 18, 23));
  EXPECT_THAT(batch.gold, ElementsAre(23, 0, 11, 15));
  EXPECT_THAT(batch.weight, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(shuffled_rows(6, {.seed = 3, .epoch = 1}), ElementsAre(4, 3, 0, 5, 2, 1));
  EXPECT_THAT(shuffled_rows(6, {.seed = 3, .epoch = 2}), ElementsAre(3, 2, 1, 0, 4, 5));
}

TEST(PretrainBatches, AreCountedWithoutDrawingTheirTokens) {
  const Corpus corpus = corpus_of({{1}, {3, 3, 2, 7}, {9}, {7, 1}});
  const PretrainShape shape = shape_of(12);
  const std::vector<PackedRow> rows = pack_rows(corpus, shape);
  std::vector<int64_t> which(rows.size());
  std::iota(which.begin(), which.end(), int64_t{0});
  const PretrainBatch batch = make_pretrain_batch(corpus, rows, which, shape, {});
  const PretrainCounts counts = count_rows(corpus, rows, which, shape);
  EXPECT_EQ(counts.tokens, std::accumulate(batch.real.begin(), batch.real.end(), int64_t{0}));
  EXPECT_EQ(static_cast<double>(counts.predictions), std::accumulate(batch.weight.begin(), batch.weight.end(), 0.0));
  EXPECT_EQ(static_cast<double>(counts.ordered),
            std::accumulate(batch.order_weight.begin(), batch.order_weight.end(), 0.0));
  EXPECT_GT(counts.ordered, 0);
  EXPECT_LT(counts.ordered, batch.rows);
  EXPECT_EQ(batch.counts.tokens, counts.tokens);
  EXPECT_EQ(batch.counts.predictions, counts.predictions);
  EXPECT_EQ(batch.counts.ordered, counts.ordered);
}

TEST(PretrainBatches, RowsOfOneSegmentHaveOneType) {
  const Corpus corpus = corpus_of({{4, 3}});
  PretrainShape shape = shape_of(16);
  shape.segments = 1;
  const std::vector<int64_t> which{0};
  const PretrainBatch batch = make_pretrain_batch(corpus, pack_rows(corpus, shape), which, shape, {});
  EXPECT_THAT(batch.types, testing::Each(0));
}

TEST(PretrainBatches, HideAtLeastOneToken) {
  PretrainShape shape = shape_of(16);
  shape.mask_share = 0;
  EXPECT_EQ(shape.slots(), 1);
  const Corpus corpus = corpus_of({{4, 3}});
  const std::vector<int64_t> which{0};
  EXPECT_THAT(make_pretrain_batch(corpus, pack_rows(corpus, shape), which, shape, {}).weight, ElementsAre(1));
  shape.mask_share = 1;
  EXPECT_EQ(shape.slots(), 13);
  const PretrainBatch all = make_pretrain_batch(corpus, pack_rows(corpus, shape), which, shape, {});
  EXPECT_EQ(std::count(all.weight.begin(), all.weight.end(), 1.0F), 7);
  // Any token is drawn but special ones, also where few are left.
  shape.vocab = 6;
  for (uint64_t epoch = 0; epoch < 50; ++epoch) {
    const PretrainBatch few = make_pretrain_batch(corpus, pack_rows(corpus, shape), which, shape, {.epoch = epoch});
    for (size_t slot = 0; slot < 7; ++slot) {
      const int64_t now = few.ids[static_cast<size_t>(few.places[slot])];
      EXPECT_TRUE(now == few.gold[slot] || now == shape.mask || now == 5) << now;
    }
  }
}

TEST(PretrainBatches, DependOnSeedEpochAndRowAlone) {
  const Corpus corpus = corpus_of({{5, 5, 5}, {5, 6}, {4, 4}});
  const PretrainShape shape = shape_of(20);
  const std::vector<PackedRow> rows = pack_rows(corpus, shape);
  const std::vector<int64_t> both{0, 2}, one{2};
  const PretrainBatch all = make_pretrain_batch(corpus, rows, both, shape, {.seed = 3, .epoch = 5}),
                      alone = make_pretrain_batch(corpus, rows, one, shape, {.seed = 3, .epoch = 5});
  EXPECT_EQ(std::vector(all.ids.begin() + shape.tokens, all.ids.end()), alone.ids);
  EXPECT_EQ(all.order[1], alone.order[0]);
  EXPECT_NE(make_pretrain_batch(corpus, rows, both, shape, {.seed = 3, .epoch = 6}).ids, all.ids);
  EXPECT_NE(make_pretrain_batch(corpus, rows, both, shape, {.seed = 4, .epoch = 5}).ids, all.ids);
}

TEST(PretrainOrder, IsAnotherPermutationEveryEpoch) {
  std::vector<int64_t> first = shuffled_rows(50, {.seed = 1, .epoch = 0});
  EXPECT_EQ(first, shuffled_rows(50, {.seed = 1, .epoch = 0}));
  EXPECT_NE(first, shuffled_rows(50, {.seed = 1, .epoch = 1}));
  std::sort(first.begin(), first.end());
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(first, all);
}

}  // namespace
}  // namespace exeunt
