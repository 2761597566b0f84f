// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/head.h"

#include <algorithm>
#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"

namespace exeunt {
namespace {

size_t part_size(const HeadShape& shape, HeadArray::Part part) {
  const auto hidden = static_cast<size_t>(shape.hidden), width = static_cast<size_t>(shape.width),
             outputs = static_cast<size_t>(shape.outputs), inner = static_cast<size_t>(shape.inner);
  const size_t after_pooler = inner > 0 ? inner : outputs;
  switch (part) {
    case HeadArray::query:
      return hidden;
    case HeadArray::pooler:
      return width * 2 * hidden;
    case HeadArray::pooler_bias:
      return width;
    case HeadArray::classifier:
      return after_pooler * width;
    case HeadArray::classifier_bias:
      return after_pooler;
    case HeadArray::inner:
      return outputs * inner;
    case HeadArray::inner_bias:
      return inner > 0 ? outputs : 0;
  }
  check(false, "a known part of a head");
  return 0;
}

void softmax_of(std::span<float> scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (float& score : scores) score /= sum;
}

void add_scaled(float factor, const float* row, std::span<float> sum) {
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += factor * row[c];
}

// gradient *= 1 - value²: through a tanh whose result is `value`.
void through_tanh(std::span<const float> value, std::span<float> gradient) {
  for (size_t i = 0; i < value.size(); ++i) gradient[i] *= 1.0F - value[i] * value[i];
}

}  // namespace

HeadArray::HeadArray(const HeadShape& shape) : shape_(shape) {
  begins_.push_back(0);
  for (int part = 0; part < kParts; ++part) {
    begins_.push_back(begins_.back() + part_size(shape, static_cast<Part>(part)));
  }
  values_.resize(begins_.back(), 0.0F);
}

std::span<float> HeadArray::part(Part part) noexcept {
  const auto p = static_cast<size_t>(part);
  return std::span(values_).subspan(begins_[p], begins_[p + 1] - begins_[p]);
}

std::span<const float> HeadArray::part(Part part) const noexcept {
  const auto p = static_cast<size_t>(part);
  return std::span(values_).subspan(begins_[p], begins_[p + 1] - begins_[p]);
}

HeadPass::HeadPass(const HeadShape& shape, const Kernels& kernels)
    : shape_(shape), kernels_(kernels), products_(kernels) {}

const float* HeadPass::widen(const TextRows& text) {
  const size_t values = static_cast<size_t>(text.tokens) * static_cast<size_t>(shape_.hidden);
  if (rows_.size() < values) rows_.resize(values);
  for (size_t i = 0; i < values; ++i) rows_[i] = bf16_to_float(text.rows[i]);
  return rows_.data();
}

void HeadPass::read(const HeadArray& weights, std::span<const TextRows> texts) {
  const auto hidden = static_cast<size_t>(shape_.hidden);
  const float* query = weights.part(HeadArray::query).data();
  size_t tokens = 0;
  for (const TextRows& text : texts) tokens += static_cast<size_t>(text.tokens);
  attention_.resize(tokens);
  input_.resize(texts.size() * 2 * hidden);
  size_t first = 0;  // token of a text among all
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* rows = widen(texts[i]);
    const std::span attention = std::span(attention_).subspan(first, static_cast<size_t>(texts[i].tokens));
    for (size_t t = 0; t < attention.size(); ++t) {
      attention[t] = kernels_.dot(rows + t * hidden, query, shape_.hidden);
    }
    softmax_of(attention);
    float* out = input_.data() + i * 2 * hidden;
    std::copy_n(rows, hidden, out);
    std::fill_n(out + hidden, hidden, 0.0F);
    for (size_t t = 0; t < attention.size(); ++t) add_scaled(attention[t], rows + t * hidden, {out + hidden, hidden});
    first += attention.size();
  }
}

std::span<const float> HeadPass::forward(const HeadArray& weights, std::span<const TextRows> texts,
                                         std::span<const float> keep) {
  const int count = static_cast<int>(texts.size());
  const size_t width = static_cast<size_t>(shape_.width), outputs = static_cast<size_t>(shape_.outputs);
  read(weights, texts);
  pooled_.resize(texts.size() * width);
  products_.times_transposed({count, shape_.width, 2 * shape_.hidden}, input_.data(),
                             weights.part(HeadArray::pooler).data(), weights.part(HeadArray::pooler_bias),
                             pooled_.data());
  kernels_.tanh(pooled_.data(), count * shape_.width);
  dropped_ = pooled_;
  for (size_t i = 0; i < keep.size(); ++i) dropped_[i] *= keep[i];
  logits_.resize(texts.size() * outputs);
  if (shape_.inner > 0) {
    between_.resize(texts.size() * static_cast<size_t>(shape_.inner));
    products_.times_transposed({count, shape_.inner, shape_.width}, dropped_.data(),
                               weights.part(HeadArray::classifier).data(), weights.part(HeadArray::classifier_bias),
                               between_.data());
    kernels_.tanh(between_.data(), count * shape_.inner);
    products_.times_transposed({count, shape_.outputs, shape_.inner}, between_.data(),
                               weights.part(HeadArray::inner).data(), weights.part(HeadArray::inner_bias),
                               logits_.data());
  } else {
    products_.times_transposed({count, shape_.outputs, shape_.width}, dropped_.data(),
                               weights.part(HeadArray::classifier).data(), weights.part(HeadArray::classifier_bias),
                               logits_.data());
  }
  return logits_;
}

void HeadPass::backward(const HeadArray& weights, std::span<const TextRows> texts, std::span<const float> keep,
                        std::span<const float> logit_gradient, HeadArray& gradient) {
  const int count = static_cast<int>(texts.size()), hidden = shape_.hidden, width = shape_.width;
  const float* above = logit_gradient.data();
  int outputs = shape_.outputs;
  if (shape_.inner > 0) {
    products_.transposed_times({outputs, shape_.inner, count}, above, between_.data(),
                               gradient.part(HeadArray::inner).data());
    sum_rows(above, texts.size(), gradient.part(HeadArray::inner_bias));
    between_gradient_.resize(between_.size());
    products_.times({count, shape_.inner, outputs}, above, weights.part(HeadArray::inner).data(),
                    static_cast<size_t>(shape_.inner), between_gradient_.data());
    through_tanh(between_, between_gradient_);
    above = between_gradient_.data();
    outputs = shape_.inner;
  }
  products_.transposed_times({outputs, width, count}, above, dropped_.data(),
                             gradient.part(HeadArray::classifier).data());
  sum_rows(above, texts.size(), gradient.part(HeadArray::classifier_bias));
  pooled_gradient_.resize(pooled_.size());
  products_.times({count, width, outputs}, above, weights.part(HeadArray::classifier).data(),
                  static_cast<size_t>(width), pooled_gradient_.data());
  for (size_t i = 0; i < keep.size(); ++i) pooled_gradient_[i] *= keep[i];
  through_tanh(pooled_, pooled_gradient_);

  products_.transposed_times({width, 2 * hidden, count}, pooled_gradient_.data(), input_.data(),
                             gradient.part(HeadArray::pooler).data());
  sum_rows(pooled_gradient_.data(), texts.size(), gradient.part(HeadArray::pooler_bias));
  read_gradient_.resize(texts.size() * static_cast<size_t>(hidden));
  products_.times({count, hidden, width}, pooled_gradient_.data(), weights.part(HeadArray::pooler).data() + hidden,
                  2 * static_cast<size_t>(hidden), read_gradient_.data());
  read_backward(texts, gradient.part(HeadArray::query));
}

// With g the gradient by r = Σ a_t h_t: that by the score of token t is a_t (g · h_t − g · r).
void HeadPass::read_backward(std::span<const TextRows> texts, std::span<float> query_gradient) {
  const auto hidden = static_cast<size_t>(shape_.hidden);
  std::fill(query_gradient.begin(), query_gradient.end(), 0.0F);
  size_t first = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* rows = widen(texts[i]);
    const float* above = read_gradient_.data() + i * hidden;
    const float mean = kernels_.dot(above, input_.data() + i * 2 * hidden + hidden, shape_.hidden);
    for (size_t t = 0; t < static_cast<size_t>(texts[i].tokens); ++t) {
      const float score = attention_[first + t] * (kernels_.dot(above, rows + t * hidden, shape_.hidden) - mean);
      add_scaled(score, rows + t * hidden, query_gradient);
    }
    first += static_cast<size_t>(texts[i].tokens);
  }
}

}  // namespace exeunt
