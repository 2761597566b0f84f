// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/head_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "exeunt/base/random.h"

namespace exeunt {
namespace {

constexpr double kDeviation = 0.02;  // of new weights, as in train/new_heads.cc
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

double unit_interval(uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

// What one step of AdamW does to each weight; its numbers are the same for all.
struct AdamStep {
  float size, root;  // rate / (1 − β₁ᵗ), √(1 − β₂ᵗ)

  void apply(std::span<float> weights, std::span<const float> gradient, std::span<float> mean, std::span<float> square,
             float shrink) const {
    const auto b1 = static_cast<float>(kBeta1), b2 = static_cast<float>(kBeta2);
    const float inverse = 1 / root;
    for (size_t i = 0; i < weights.size(); ++i) {
      const float g = gradient[i];
      const float m = b1 * mean[i] + (1 - b1) * g;
      const float v = b2 * square[i] + (1 - b2) * g * g;
      mean[i] = m;
      square[i] = v;
      weights[i] = weights[i] * shrink - size * m / (std::sqrt(v) * inverse + static_cast<float>(kEpsilon));
    }
  }
};

}  // namespace

uint64_t random_bits(uint64_t stream, uint64_t index) noexcept {
  return mix_bits(stream + (index + 1) * SplitMix64::kStep);  // what SplitMix64(stream) draws after `index` others
}

std::vector<size_t> epoch_order(size_t texts, uint64_t seed, int epoch) {
  std::vector<size_t> order(texts);
  std::iota(order.begin(), order.end(), size_t{0});
  const uint64_t stream = random_bits(~seed, static_cast<uint64_t>(epoch));
  for (size_t i = texts; i-- > 1;) std::swap(order[i], order[random_bits(stream, i) % (i + 1)]);
  return order;
}

HeadTrainer::HeadTrainer(const HeadShape& shape, const Kernels& kernels, const HeadSettings& settings, int number,
                         int64_t steps)
    : settings_(settings),
      stream_(random_bits(settings.seed, static_cast<uint64_t>(number))),
      steps_(steps),
      pass_(shape, kernels),
      weights_(shape),
      best_(shape),
      gradient_(shape),
      mean_(shape),
      square_(shape),
      best_loss_(std::numeric_limits<double>::infinity()) {
  draw_weights();
  best_ = weights_;
}

size_t HeadTrainer::bytes(const HeadShape& shape) noexcept {
  return 7 * HeadArray(shape).all().size_bytes();  // five arrays, the packed weights, and their transpose
}

void HeadTrainer::draw_weights() {
  const uint64_t stream = random_bits(stream_, 0);
  uint64_t index = 0;
  for (const auto part : {HeadArray::pooler, HeadArray::classifier, HeadArray::inner}) {
    for (float& value : weights_.part(part)) {  // Box and Muller
      const double radius = std::sqrt(-2 * std::log(unit_interval(random_bits(stream, index))));
      const double angle = 2 * std::numbers::pi * unit_interval(random_bits(stream, index + 1));
      value = static_cast<float>(kDeviation * radius * std::cos(angle));
      index += 2;
    }
  }
}

void HeadTrainer::begin_from(const HeadArray& weights) {
  weights_ = weights;
  best_ = weights;
}

void HeadTrainer::draw_dropout(size_t texts) {
  if (settings_.dropout == 0) return;
  const uint64_t stream = random_bits(stream_, static_cast<uint64_t>(step_) + 1);
  const auto limit = static_cast<uint64_t>(settings_.dropout * 0x1p64);
  const auto kept = static_cast<float>(1 / (1 - settings_.dropout));
  keep_.resize(texts * static_cast<size_t>(weights_.shape().width));
  for (size_t i = 0; i < keep_.size(); ++i) keep_[i] = random_bits(stream, i) < limit ? 0.0F : kept;
}

void HeadTrainer::step(const Imitation& targets, std::span<const size_t> texts, std::span<const TextRows> rows) {
  draw_dropout(texts.size());
  const std::span<const float> logits = pass_.forward(weights_, rows, keep_);
  logit_gradient_.resize(logits.size());
  (void)targets.loss(texts, logits, logit_gradient_);
  pass_.backward(weights_, rows, keep_, logit_gradient_, gradient_);
  update();
}

HeadTrainer::Validation HeadTrainer::validate(const Imitation& targets, std::span<const size_t> texts,
                                              std::span<const TextRows> rows) {
  const std::span<const float> logits = pass_.forward(weights_, rows);
  return {.loss = targets.loss(texts, logits, {}), .agreement = targets.agreement(texts, logits)};
}

bool HeadTrainer::keep_if_best(double loss) {
  if (!(loss < best_loss_)) return false;
  best_loss_ = loss;
  best_ = weights_;
  return true;
}

void HeadTrainer::update() {
  // Linear warm-up from 0, then linear decay to 0, as in train/stage_plan.h.
  const double all = static_cast<double>(steps_), warmup = settings_.warmup * all, k = static_cast<double>(step_);
  const double share = k < warmup ? k / std::max(1.0, warmup) : std::max(0.0, (all - k) / std::max(1.0, all - warmup));
  const double rate = settings_.rate * share;
  const double t = static_cast<double>(++step_);
  const AdamStep adam{.size = static_cast<float>(rate / (1 - std::pow(kBeta1, t))),
                      .root = static_cast<float>(std::sqrt(1 - std::pow(kBeta2, t)))};
  for (int p = 0; p < HeadArray::kParts; ++p) {
    const auto part = static_cast<HeadArray::Part>(p);
    const bool bias =
        part == HeadArray::pooler_bias || part == HeadArray::classifier_bias || part == HeadArray::inner_bias;
    const double shrink = bias ? 1 : 1 - rate * settings_.decay;
    adam.apply(weights_.part(part), gradient_.part(part), mean_.part(part), square_.part(part),
               static_cast<float>(shrink));
  }
}

}  // namespace exeunt
