// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/head_trainer.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/base/half.h"

namespace exeunt {
namespace {

// Texts whose second class is said by one row among others, at any place but the first: only a reader can see it.
struct HiddenSign {
  static constexpr int kHidden = 16, kTokens = 6, kTexts = 96;
  std::vector<uint16_t> values;
  std::vector<TextRows> rows;
  std::vector<float> teacher;

  // `logit` of the right class, for its certainty.
  explicit HiddenSign(float logit = 3) : values(static_cast<size_t>(kTexts * kTokens * kHidden)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 0.3F);
    for (uint16_t& value : values) value = float_to_bf16(normal(random));
    for (int i = 0; i < kTexts; ++i) {
      uint16_t* text = values.data() + static_cast<size_t>(i * kTokens * kHidden);
      const int place = 1 + i % (kTokens - 1), sign = i % 2 == 0 ? 1 : -1;
      text[place * kHidden] = float_to_bf16(4);
      text[place * kHidden + 1] = float_to_bf16(static_cast<float>(2 * sign));
      rows.push_back({text, kTokens});
      teacher.insert(teacher.end(), {logit * static_cast<float>(sign), -logit * static_cast<float>(sign)});
    }
  }
};

HeadTrainer learned(const HiddenSign& texts, const Imitation& targets, const HeadSettings& settings) {
  const int steps = 60;
  HeadTrainer trainer({.hidden = HiddenSign::kHidden, .width = 16, .outputs = 2}, choose_kernels(), settings, 1, steps);
  for (int step = 0; step < steps; ++step) {
    std::vector<size_t> numbers;
    std::vector<TextRows> rows;
    for (size_t i = 0; i < 32; ++i) {
      numbers.push_back((static_cast<size_t>(step) * 32 + i) % HiddenSign::kTexts);
      rows.push_back(texts.rows[numbers.back()]);
    }
    trainer.step(targets, numbers, rows);
  }
  return trainer;
}

TEST(HeadTrainer, LearnsFromRowsOnlyTheReaderSees) {
  const HiddenSign texts;
  const Imitation targets(texts.teacher, ExitLayout{{}, 2}, 1);
  std::vector<size_t> all(HiddenSign::kTexts);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  HeadTrainer trainer = learned(texts, targets, {.rate = 1e-2});
  EXPECT_EQ(trainer.validate(targets, all, texts.rows).agreement, HiddenSign::kTexts);
}

// What is kept is scaled, so that logits without dropout are as large as those that were learned with it.
TEST(HeadTrainer, DropoutKeepsSizeOfLogits) {
  const HiddenSign texts(0.5F);  // answers with certainty 0.73
  const Imitation targets(texts.teacher, ExitLayout{{}, 2}, 1);
  std::vector<size_t> all(HiddenSign::kTexts);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto loss = [&](double dropout) {
    HeadTrainer trainer = learned(texts, targets, {.rate = 1e-2, .dropout = dropout});
    return trainer.validate(targets, all, texts.rows).loss / HiddenSign::kTexts;
  };
  EXPECT_LT(loss(0), 0.01);
  EXPECT_LT(loss(0.5), 0.01);
}

TEST(HeadTrainer, IsReproducibleForSeed) {
  const HiddenSign texts;
  const Imitation targets(texts.teacher, ExitLayout{{}, 2}, 1);
  const auto weights = [&](uint64_t seed) {
    const HeadTrainer trainer = learned(texts, targets, {.seed = seed});
    return std::vector<float>(trainer.weights().all().begin(), trainer.weights().all().end());
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(HeadTrainer, KeepsTheBestWeights) {
  HeadTrainer trainer({.hidden = 4, .width = 4, .outputs = 2}, choose_kernels(), {}, 1, 1);
  EXPECT_TRUE(trainer.keep_if_best(0.5));
  EXPECT_FALSE(trainer.keep_if_best(0.5));
  EXPECT_TRUE(trainer.keep_if_best(0.25));
  EXPECT_TRUE(std::equal(trainer.best().all().begin(), trainer.best().all().end(), trainer.weights().all().begin()));
}

TEST(EpochOrder, HasEveryTextOnceAndDiffersByEpochAndSeed) {
  std::vector<size_t> order = epoch_order(100, 7, 1);
  EXPECT_EQ(order, epoch_order(100, 7, 1));
  EXPECT_NE(order, epoch_order(100, 7, 2));
  EXPECT_NE(order, epoch_order(100, 8, 1));
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

// One step of AdamW by its definition, on the first weight of the classifier's bias: no dropout, no decay there.
TEST(HeadTrainer, StepsByLearningRateForGradientOfOneSign) {
  const HiddenSign texts;
  const Imitation targets(texts.teacher, ExitLayout{{}, 2}, 1);
  HeadTrainer trainer({.hidden = HiddenSign::kHidden, .width = 4, .outputs = 2}, choose_kernels(),
                      {.rate = 0.01, .warmup = 0, .dropout = 0}, 1, 10);
  const std::vector<size_t> number{0};
  trainer.step(targets, number, {texts.rows.data(), 1});
  // The first step of Adam is the rate itself, against the gradient's sign.
  EXPECT_NEAR(trainer.weights().part(HeadArray::classifier_bias)[0], 0.01, 1e-6);
  EXPECT_NEAR(trainer.weights().part(HeadArray::classifier_bias)[1], -0.01, 1e-6);
}

}  // namespace
}  // namespace exeunt
