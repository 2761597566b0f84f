// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/exit_0.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/model/exits_file.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

constexpr int kKnownTokens = 30, kThreeLayers = 3;

// Texts of random tokens whose answer at full depth one of their tokens decides, or chance; earlier exits know nothing.
struct Answered {
  Features rows = {};
  ExitTrace trace = {};

  Answered(size_t count, bool by_words, uint32_t seed) {
    trace.exits = kThreeLayers;
    trace.width = 2;
    trace.rows = count;
    trace.info.precision = "fp32";
    trace.info.labels = {"no", "yes"};
    for (int layer = 1; layer <= kThreeLayers; ++layer) trace.info.layers.push_back(layer);
    std::mt19937 random(seed);
    for (size_t row = 0; row < count; ++row) {
      const auto word = static_cast<int32_t>(random() % 2);
      const bool yes = by_words ? word == 1 : random() % 2 == 1;
      for (int n = 0; n < 4; ++n) rows.ids.push_back(static_cast<int32_t>(3 + random() % (kKnownTokens - 3)));
      rows.ids.push_back(1 + word);
      rows.offsets.push_back(static_cast<int64_t>(rows.ids.size()));
      rows.gold.push_back(NAN);
      trace.gold.push_back(NAN);
      trace.index.push_back(static_cast<int64_t>(row));
      for (int exit = 1; exit < kThreeLayers; ++exit) trace.logits.insert(trace.logits.end(), {0, 0});
      trace.logits.insert(trace.logits.end(), {yes ? -3.0F : 3.0F, 0});
    }
  }
  [[nodiscard]] TracedRows all() const { return {rows, trace}; }
};

class Exit0 : public testing::Test {
 protected:
  static ModelSpec spec() {
    ModelSpec spec = small_spec();
    spec.vocab = kKnownTokens;
    spec.layers = kThreeLayers;
    return spec;
  }
  static Exit0Options options(int64_t certify_rows = 500) {
    Exit0Options out{.pieces = small_pieces(kKnownTokens), .certify_rows = certify_rows, .threads = 1};
    out.plan.max_drops = {0.01};
    return out;
  }
  [[nodiscard]] bool kept(bool by_words, int64_t certify_rows = 500) const {
    const Answered train(600, by_words, 1), validation(300, by_words, 2);
    return with_exit_0(model_, train.all(), validation.all(), options(certify_rows)).exits().ngrams.has_value();
  }

  const Checkpoint model_ = make_model(spec(), own_exits(spec(), 2));
};

TEST_F(Exit0, IsKeptWhereWordsDecide) {
  EXPECT_TRUE(kept(true));
}

TEST_F(Exit0, IsLeftOutWhereWordsSayNothing) {
  EXPECT_FALSE(kept(false));
}

TEST_F(Exit0, IsLeftOutWhereTooFewRowsWillCertify) {
  EXPECT_FALSE(kept(true, 20));
}

// The first exit of `fit` knows the answers or does not; of the rows that certify and report, the other way round.
TEST_F(Exit0, IsDecidedOnTheFitPartAlone) {
  const auto rows = [](bool knows) {
    ExitTrace trace = Answered(500, false, 1).trace;
    trace.info.layers = {0, 1, 2};
    for (size_t row = 0; knows && row < trace.rows; ++row)
      std::ranges::copy(trace.at(row, 2), trace.logits.begin() + static_cast<ptrdiff_t>(row) * 6);
    return trace;
  };
  for (const bool knows : {true, false}) {
    const CalibrationData data{.fit = rows(knows), .certify = rows(!knows), .report = rows(!knows)};
    EXPECT_EQ(exit_0_pays(data, 500, options().plan), knows);
  }
}

TEST_F(Exit0, LeavesTheOtherExitsAsTheyAre) {
  const Answered train(600, true, 1), validation(300, true, 2);
  const Checkpoint with = with_exit_0(model_, train.all(), validation.all(), options());
  ASSERT_EQ(with.exits().sites.size(), model_.exits().sites.size() + 1);
  EXPECT_EQ(with.exits().sites[0].after, 0);
  const Checkpoint again = without_exit_0(with);
  EXPECT_EQ(exits_json(again.exits()).dump(), exits_json(model_.exits()).dump());
  for (const auto& [name, view] : model_.tensors().tensors) {
    const std::span<const std::byte> bytes = again.get(name).bytes;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), view.bytes.begin(), view.bytes.end())) << name;
  }
}

TEST_F(Exit0, KeepsTheRuleOfTheFiles) {
  Origin origin;
  origin.policy = "entropy:0.2";
  const Checkpoint model(model_.spec(), model_.exits(), model_.tensors(), origin);
  const Answered train(600, true, 1), validation(300, true, 2);
  const Checkpoint with = with_exit_0(model, train.all(), validation.all(), options());
  ASSERT_TRUE(with.exits().ngrams);
  EXPECT_EQ(with.native_policy(), "entropy:0.2");
}

TEST_F(Exit0, IsLeftOutBesideALearningToExitHead) {
  ExitLayout layout = own_exits(spec(), 2);
  layout.lte = true;
  const Answered train(600, true, 1), validation(300, true, 2);
  EXPECT_FALSE(with_exit_0(make_model(spec(), layout), train.all(), validation.all(), options()).exits().ngrams);
}

TEST_F(Exit0, TraceWithoutItHasTheOtherExits) {
  ExitTrace trace = Answered(2, true, 1).trace;
  for (size_t i = 0; i < trace.logits.size(); ++i) trace.logits[i] = static_cast<float>(i);
  trace.info.layers = {0, 1, 2};
  const ExitTrace without = without_first_exit(trace, "abc");
  EXPECT_EQ(without.info.weights, "abc");
  EXPECT_EQ(without.info.layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(without.exits, 2);
  EXPECT_EQ(without.logits, (std::vector<float>{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(without.index, trace.index);
}

}  // namespace
}  // namespace exeunt
