// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/formulas.h"

namespace exeunt {
namespace {

using ::testing::ElementsAre;

TensorView view(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {.dtype = DType::f32, .shape = std::move(shape), .strides = {}, .bytes = std::as_bytes(std::span(values))};
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

TEST(Linear, MultipliesAndAddsBias) {
  const std::vector<float> weight{1, 2, 3, 4, 5, 6}, bias{10, 20};
  const Linear map(view(weight, {2, 3}), view(bias, {2}));
  EXPECT_EQ(map.inputs(), 3);
  EXPECT_EQ(map.outputs(), 2);
  EXPECT_THAT(map(std::vector<float>{1, 0, -1, 1, 1, 1}), ElementsAre(8, 18, 16, 35));
}

TEST(Linear, SumsInOneOrderForAllSizes) {
  // Bit-equal to the plain loop, for sizes around the blocks inside.
  uint32_t seed = 0;
  for (const size_t outputs : {1, 2, 31, 32, 33, 65}) {
    for (const size_t inputs : {1, 3, 17}) {
      for (const size_t rows : {1, 2, 3, 5}) {
        const auto weight = random_floats(outputs * inputs, ++seed), bias = random_floats(outputs, ++seed);
        const auto in = random_floats(rows * inputs, ++seed);
        std::vector<float> want;
        for (size_t r = 0; r < rows; ++r) {
          for (size_t o = 0; o < outputs; ++o) {
            float sum = bias[o];
            for (size_t k = 0; k < inputs; ++k) sum += in[r * inputs + k] * weight[o * inputs + k];
            want.push_back(sum);
          }
        }
        const auto high = static_cast<int64_t>(outputs), wide = static_cast<int64_t>(inputs);
        const Linear map(view(weight, {high, wide}), view(bias, {high}));
        ASSERT_EQ(map(in), want) << outputs << " outputs, " << inputs << " inputs, " << rows << " rows";
      }
    }
  }
}

TEST(Linear, ReadsTransposedWeights) {
  const std::vector<float> kernel{1, 4, 2, 5, 3, 6}, bias{0, 0};  // [3, 2], as TensorFlow keeps them
  const Linear map(transposed(view(kernel, {3, 2})), view(bias, {2}));
  EXPECT_THAT(map(std::vector<float>{1, 0, 0}), ElementsAre(1, 4));
}

TEST(Linear, RejectsIncompleteRows) {
  const std::vector<float> weight{1, 2}, bias{0};
  const Linear map(view(weight, {1, 2}), view(bias, {1}));
  EXPECT_THROW((void)map(std::vector<float>{1, 2, 3}), std::logic_error);
  EXPECT_THROW(Linear(view(weight, {2, 1}), view(bias, {1})), std::logic_error);
}

}  // namespace
}  // namespace exeunt
