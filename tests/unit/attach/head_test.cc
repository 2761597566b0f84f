// SPDX-License-Identifier: Apache-2.0
// The forward and backward pass of a head against plain loops in double precision, and their gradient by differences.
#include "exeunt/attach/head.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "exeunt/attach/imitation.h"
#include "exeunt/base/half.h"

namespace exeunt {
namespace {

using Doubles = std::vector<double>;

struct Case {
  HeadShape shape;
  bool regression = false;
};

struct Batch {
  std::vector<std::vector<uint16_t>> values;
  std::vector<TextRows> rows;
};

Batch random_batch(int hidden, std::initializer_list<int> lengths) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Batch batch;
  for (const int tokens : lengths) {
    std::vector<uint16_t> rows(static_cast<size_t>(tokens * hidden));
    for (uint16_t& value : rows) value = float_to_bf16(normal(random));
    batch.values.push_back(std::move(rows));
    batch.rows.push_back({batch.values.back().data(), tokens});
  }
  return batch;
}

HeadArray random_weights(const HeadShape& shape) {
  HeadArray weights(shape);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.4F);
  for (float& value : weights.all()) value = normal(random);
  return weights;
}

// y = W x + b, W [outputs, x], weights from a flat list of all parameters.
Doubles linear(const Doubles& all, size_t weight, size_t bias, size_t outputs, const Doubles& x) {
  Doubles y(outputs);
  for (size_t o = 0; o < outputs; ++o) {
    y[o] = all[bias + o];
    for (size_t i = 0; i < x.size(); ++i) y[o] += all[weight + o * x.size() + i] * x[i];
  }
  return y;
}

void tanh_each(Doubles& values) {
  for (double& value : values) value = std::tanh(value);
}

// The logits of one text as docs/methods.md has them.
Doubles plain_logits(const HeadArray& layout, const Doubles& all, const TextRows& text, std::span<const float> keep) {
  const HeadShape& shape = layout.shape();
  const auto hidden = static_cast<size_t>(shape.hidden), tokens = static_cast<size_t>(text.tokens);
  const auto begin = [&](HeadArray::Part part) {
    return static_cast<size_t>(layout.part(part).data() - layout.all().data());
  };
  const auto row = [&](size_t t, size_t c) { return static_cast<double>(bf16_to_float(text.rows[t * hidden + c])); };
  Doubles attention(tokens);
  double sum = 0;
  for (size_t t = 0; t < tokens; ++t) {
    double score = 0;
    for (size_t c = 0; c < hidden; ++c) score += row(t, c) * all[begin(HeadArray::query) + c];
    attention[t] = std::exp(score);
    sum += attention[t];
  }
  Doubles input(2 * hidden);
  for (size_t c = 0; c < hidden; ++c) {
    input[c] = row(0, c);
    for (size_t t = 0; t < tokens; ++t) input[hidden + c] += attention[t] / sum * row(t, c);
  }
  Doubles pooled =
      linear(all, begin(HeadArray::pooler), begin(HeadArray::pooler_bias), static_cast<size_t>(shape.width), input);
  tanh_each(pooled);
  for (size_t i = 0; i < keep.size(); ++i) pooled[i] *= static_cast<double>(keep[i]);
  const auto outputs = static_cast<size_t>(shape.outputs);
  if (shape.inner == 0)
    return linear(all, begin(HeadArray::classifier), begin(HeadArray::classifier_bias), outputs, pooled);
  Doubles between = linear(all, begin(HeadArray::classifier), begin(HeadArray::classifier_bias),
                           static_cast<size_t>(shape.inner), pooled);
  tanh_each(between);
  return linear(all, begin(HeadArray::inner), begin(HeadArray::inner_bias), outputs, between);
}

constexpr double kTemperature = 2;

// The mean loss by its definition.
double plain_loss(const Doubles& logits, const std::vector<float>& teacher, size_t outputs, bool regression,
                  const Imitation& targets) {
  const size_t texts = logits.size() / outputs;
  double loss = 0;
  for (size_t i = 0; i < texts; ++i) {
    if (regression) {
      double mean = 0;
      for (const float value : teacher) mean += value / static_cast<double>(texts);
      loss += std::pow(logits[i] - (teacher[i] - mean) / targets.spread(), 2);
      continue;
    }
    double wanted_sum = 0, own_sum = 0;
    for (size_t c = 0; c < outputs; ++c) {
      wanted_sum += std::exp(teacher[i * outputs + c] / kTemperature);
      own_sum += std::exp(logits[i * outputs + c] / kTemperature);
    }
    for (size_t c = 0; c < outputs; ++c) {
      const double wanted = std::exp(teacher[i * outputs + c] / kTemperature) / wanted_sum;
      const double own = std::exp(logits[i * outputs + c] / kTemperature) / own_sum;
      loss += kTemperature * kTemperature * wanted * std::log(wanted / own);
    }
  }
  return loss / static_cast<double>(texts);
}

class HeadTest : public testing::TestWithParam<Case> {};

TEST_P(HeadTest, MatchesPlainLoopsAndFiniteDifferences) {
  const HeadShape shape = GetParam().shape;
  const Batch batch = random_batch(shape.hidden, {3, 1, 7, 2, 5});
  const HeadArray weights = random_weights(shape);
  const size_t outputs = static_cast<size_t>(shape.outputs), width = static_cast<size_t>(shape.width);
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> teacher(batch.rows.size() * outputs), keep(batch.rows.size() * width);
  for (float& value : teacher) value = 2 * normal(random);
  for (float& value : keep) value = random() % 5 == 0 ? 0.0F : 1.25F;
  const Problem problem = GetParam().regression ? Problem::regression : Problem::classification;
  const Imitation targets(teacher, ExitLayout{{.problem = problem}, shape.outputs}, kTemperature);
  const std::vector<size_t> texts{0, 1, 2, 3, 4};

  Doubles all(weights.all().begin(), weights.all().end());
  const auto loss_at = [&] {
    Doubles logits;
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const Doubles own = plain_logits(weights, all, batch.rows[i], std::span(keep).subspan(i * width, width));
      logits.insert(logits.end(), own.begin(), own.end());
    }
    return std::pair(logits, plain_loss(logits, teacher, outputs, GetParam().regression, targets));
  };
  const auto [wanted_logits, wanted_loss] = loss_at();

  for (const Kernels* kernels : all_kernels()) {
    if (!kernels->runs_on(cpu_features()) || !kernels->prepare()) continue;
    SCOPED_TRACE(kernels->name);
    HeadPass pass(shape, *kernels);
    const std::span<const float> logits = pass.forward(weights, batch.rows, keep);
    ASSERT_EQ(logits.size(), wanted_logits.size());
    for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], wanted_logits[i], 2e-5) << i;
    std::vector<float> logit_gradient(logits.size());
    EXPECT_NEAR(targets.loss(texts, logits, logit_gradient) / 5, wanted_loss, 1e-4);
    HeadArray gradient(shape);
    pass.backward(weights, batch.rows, keep, logit_gradient, gradient);
    for (size_t i = 0; i < all.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double value = all[i];
      all[i] = value + kStep;
      const double above = loss_at().second;
      all[i] = value - kStep;
      const double below = loss_at().second;
      all[i] = value;
      EXPECT_NEAR(gradient.all()[i], (above - below) / (2 * kStep), 3e-5) << "weight " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HeadTest,
                         testing::Values(Case{{.hidden = 6, .width = 5, .outputs = 3}},
                                         Case{{.hidden = 8, .width = 8, .outputs = 2}},
                                         Case{{.hidden = 5, .width = 7, .outputs = 1}, true},
                                         Case{{.hidden = 4, .width = 6, .outputs = 3, .inner = 5}},
                                         Case{{.hidden = 4, .width = 6, .outputs = 1, .inner = 3}, true}));

TEST(HeadPass, LogitsAreIndependentOfBatch) {
  const HeadShape shape{.hidden = 12, .width = 9, .outputs = 4};
  const Batch batch = random_batch(shape.hidden, {3, 8, 1, 20, 2, 6, 4});
  const HeadArray weights = random_weights(shape);
  HeadPass pass(shape, choose_kernels());
  const std::span<const float> together = pass.forward(weights, batch.rows);
  const std::vector<float> all(together.begin(), together.end());
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const std::span<const float> alone = pass.forward(weights, {&batch.rows[i], 1});
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(alone[c], all[i * 4 + c]);
  }
}

}  // namespace
}  // namespace exeunt
