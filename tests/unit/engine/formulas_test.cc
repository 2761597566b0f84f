// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fixtures/near.h"
#include "tests/reference/encoder_formulas.h"

namespace exeunt {
namespace {

using ::testing::ElementsAre;

const float kLn2 = std::log(2.0F), kLn3 = std::log(3.0F);

TEST(Formulas, GeluMatchesNormalDistribution) {
  EXPECT_NEAR(gelu(1), 0.8413447461, 1e-7);
  EXPECT_NEAR(gelu(-1), -0.1586552539, 1e-7);
  EXPECT_NEAR(gelu(3), 2.9959503059, 1e-6);
  EXPECT_EQ(gelu(0), 0);
  EXPECT_NEAR(gelu(-20), 0, 1e-12);
  EXPECT_EQ(gelu(20), 20);
}

TEST(Formulas, GeluNewMatchesTanhForm) {
  EXPECT_NEAR(gelu_new(1), 0.8411919906, 1e-7);
  EXPECT_NEAR(gelu_new(-1), -0.1588080094, 1e-7);
  EXPECT_NEAR(gelu_new(3), 2.9963626078, 1e-6);
  EXPECT_GT(std::abs(gelu_new(3) - gelu(3)), 1e-4);
  EXPECT_EQ(gelu_new(0), 0);
}

TEST(Formulas, ActivateSelectsFunction) {
  std::vector<float> a{-1, 2}, b = a, c = a;
  activate(Activation::gelu, a);
  activate(Activation::gelu_new, b);
  activate(Activation::relu, c);
  EXPECT_THAT(a, ElementsAre(gelu(-1), gelu(2)));
  EXPECT_THAT(b, ElementsAre(gelu_new(-1), gelu_new(2)));
  EXPECT_THAT(c, ElementsAre(0, 2));
}

TEST(Formulas, SigmoidIsStableAtBothEnds) {
  EXPECT_EQ(sigmoid(0), 0.5F);
  EXPECT_NEAR(sigmoid(kLn3), 0.75, 1e-7);
  EXPECT_NEAR(sigmoid(-kLn3), 0.25, 1e-7);
  EXPECT_EQ(sigmoid(1000), 1);
  EXPECT_EQ(sigmoid(-1000), 0);
}

TEST(Formulas, SoftmaxOfLogarithmsIsNormalized) {
  std::vector<float> x{0, kLn2, kLn3};
  softmax(x);
  EXPECT_THAT(x, near({1.0F / 6, 2.0F / 6, 3.0F / 6}, 1e-7F));
}

TEST(Formulas, SoftmaxDoesNotOverflowOrVanish) {
  std::vector<float> large{1e30F, 1e30F}, far{1e4F, -1e4F}, one{-5}, none;
  softmax(large);
  softmax(far);
  softmax(one);
  softmax(none);
  EXPECT_THAT(large, ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(far, ElementsAre(1, 0));
  EXPECT_THAT(one, ElementsAre(1));
}

TEST(Formulas, LayerNormUsesPopulationVariance) {
  // mean 2.5, variance 1.25
  std::vector<float> rows{1, 2, 3, 4};
  layer_norm(rows, {.weight = {1, 1, 1, 1}, .bias = {0, 0, 0, 0}, .epsilon = 0});
  EXPECT_THAT(rows, near({-1.3416408F, -0.4472136F, 0.4472136F, 1.3416408F}));
}

TEST(Formulas, LayerNormAddsEpsilonToTheVariance) {
  std::vector<float> rows{1, 2, 3, 4};  // variance + ε = 6.25, its root 2.5
  layer_norm(rows, {.weight = {1, 10, 1, 1}, .bias = {0, 0, 7, 0}, .epsilon = 5});
  EXPECT_THAT(rows, near({-0.6F, -2.0F, 7.2F, 0.6F}));
}

TEST(Formulas, LayerNormIsPerRow) {
  std::vector<float> rows{-1, 1, 100, 300, 5, 5};
  layer_norm(rows, {.weight = {1, 1}, .bias = {0, 0}, .epsilon = 1e-12F});
  EXPECT_THAT(rows, near({-1.0F, 1.0F, -1.0F, 1.0F, 0.0F, 0.0F}));
}

TEST(Formulas, UniformAttentionIsMean) {
  const std::vector<float> zero(6, 0.0F), value{1, 2, 3, 4, 8, 0};
  const auto out = attend({.query = zero, .key = zero, .value = value, .hidden = 2, .heads = 1});
  EXPECT_THAT(out, near({4, 2, 4, 2, 4, 2}));
}

TEST(Formulas, AttentionScalesByRootOfHeadWidth) {
  // Row 0 asks with √2 ln 3, so its scores are ln 3 and 0 and its weights ¾ and ¼; row 1 asks nothing.
  const std::vector<float> query{std::numbers::sqrt2_v<float> * kLn3, 0, 0, 0}, key{1, 0, 0, 0}, value{4, 0, 0, 8};
  const auto out = attend({.query = query, .key = key, .value = value, .hidden = 2, .heads = 1});
  EXPECT_THAT(out, near({3, 2, 2, 4}));
}

TEST(Formulas, AttentionHeadsDoNotMix) {
  // Two heads of width 1: the first prefers row 0 by ln 3, the second row 1.
  const std::vector<float> query{kLn3, kLn3, 0, 0}, key{1, 0, 0, 1}, value{4, 4, 0, 0};
  const auto out = attend({.query = query, .key = key, .value = value, .hidden = 2, .heads = 2});
  EXPECT_THAT(out, near({3, 1, 2, 2}));
}

TEST(Formulas, AttentionOverOneRowIsItsValue) {
  const std::vector<float> row{3, -7}, value{0.5F, -2};
  EXPECT_THAT(attend({.query = row, .key = row, .value = value, .hidden = 2, .heads = 2}), ElementsAre(0.5F, -2));
}

TEST(Formulas, PoolInputsAreRowZeroMeanMaxAndSums) {
  const std::vector<float> rows{1, -4, 3, -1, 5, -1};
  EXPECT_THAT(pool_input(rows, 2, PoolInput::cls), ElementsAre(1, -4));
  EXPECT_THAT(pool_input(rows, 2, PoolInput::mean), ElementsAre(3, -2));
  EXPECT_THAT(pool_input(rows, 2, PoolInput::max), ElementsAre(5, -1));
  EXPECT_THAT(pool_input(rows, 2, PoolInput::cls_mean), ElementsAre(4, -6));
  EXPECT_THAT(pool_input(rows, 2, PoolInput::cls_max), ElementsAre(6, -5));
  EXPECT_THAT(pool_input(rows, 2, PoolInput::mean_max), ElementsAre(8, -3));
}

TEST(Formulas, ReaderWeighsRowsByItsQuery) {
  // a = (.4, .2, .4), r = (.8, .6)
  const std::vector<float> rows{1, 0, 0, 1, 1, 1}, query{kLn2, 0};
  EXPECT_THAT(reader_input(rows, query), near({1, 0, 0.8F, 0.6F}));
}

TEST(Formulas, ReaderWithZeroQueryIsTheMean) {
  const std::vector<float> rows{1, -4, 3, -1, 5, -1}, query{0, 0};
  EXPECT_THAT(reader_input(rows, query), near({1, -4, 3, -2}));
}

TEST(Formulas, RejectsIncompleteRows) {
  const std::vector<float> rows{1, 2, 3}, query{0, 0};
  EXPECT_THROW((void)pool_input(rows, 2, PoolInput::cls), std::logic_error);
  EXPECT_THROW((void)pool_input({}, 2, PoolInput::mean), std::logic_error);
  EXPECT_THROW((void)reader_input(rows, query), std::logic_error);
}

}  // namespace
}  // namespace exeunt
