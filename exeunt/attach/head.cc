// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/head.h"

#include <algorithm>
#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"

namespace exeunt {
namespace {

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

std::byte* room(Region& region, size_t bytes) {
  if (region.size() < bytes) region = Region(bytes, "matrix products");
  return region.data();
}

// out [columns, rows] of `from` [rows, columns]. In squares, so that both sides stay in the cache.
void transpose(const float* from, size_t stride, size_t rows, size_t columns, std::vector<float>& out) {
  constexpr size_t kSide = 16;
  out.resize(rows * columns);
  for (size_t r = 0; r < rows; r += kSide) {
    for (size_t c = 0; c < columns; c += kSide) {
      const size_t last_row = std::min(rows, r + kSide), last_column = std::min(columns, c + kSide);
      for (size_t j = c; j < last_column; ++j) {
        for (size_t i = r; i < last_row; ++i) out[j * rows + i] = from[i * stride + j];
      }
    }
  }
}

// out[r] = Σ_t rows[t, r], in the order of t.
void sum_rows(const float* rows, size_t count, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (size_t t = 0; t < count; ++t) {
    const float* row = rows + t * out.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] += row[i];
  }
}

}  // namespace

void Products::times_transposed(const Sizes& sizes, const float* a, const float* b, std::span<const float> bias,
                                float* out) {
  const auto [m, n, k] = sizes;
  if (bias.empty()) {
    if (zeros_.size() < static_cast<size_t>(n)) zeros_.resize(static_cast<size_t>(n), 0.0F);
    bias = zeros_;
  }
  PackedWeight weight{.precision = Precision::fp32, .inputs = k, .outputs = n};
  std::byte* packed = room(weight_, kernels_.packed_bytes(Precision::fp32, k, n));
  kernels_.pack_weight(weight, b, bias.data(), packed);
  weight.data = packed;
  const Operand input{.precision = Precision::fp32,
                      .rows = m,
                      .columns = k,
                      .data = room(operand_, kernels_.operand_bytes(Precision::fp32, m, k))};
  kernels_.pack_rows(a, static_cast<size_t>(k), input, 0, m);
  kernels_.multiply({.weight = &weight,
                     .input = input,
                     .finish = Finish::store,
                     .out = out,
                     .stride = static_cast<size_t>(n),
                     .row = 0,
                     .rows = m,
                     .panel = 0,
                     .panels = panels_of(kernels_, weight)});
}

void Products::transposed_times(const Sizes& sizes, const float* a, const float* b, float* out) {
  const auto m = static_cast<size_t>(sizes.m), n = static_cast<size_t>(sizes.n), k = static_cast<size_t>(sizes.k);
  transpose(a, m, k, m, left_);
  transpose(b, n, k, n, right_);
  times_transposed(sizes, left_.data(), right_.data(), {}, out);
}

void Products::times(const Sizes& sizes, const float* a, const float* b, size_t stride, float* out) {
  transpose(b, stride, static_cast<size_t>(sizes.k), static_cast<size_t>(sizes.n), right_);
  times_transposed(sizes, a, right_.data(), {}, out);
}

HeadArray::HeadArray(const HeadShape& shape) : shape_(shape), begins_{0} {
  const auto hidden = static_cast<size_t>(shape.hidden), width = static_cast<size_t>(shape.width),
             outputs = static_cast<size_t>(shape.outputs), middle = static_cast<size_t>(shape.inner);
  const size_t first = middle > 0 ? middle : outputs;  // outputs of the classifier's first matrix
  for (const size_t size : {/*query*/ hidden, /*pooler*/ width * 2 * hidden, width, /*classifier*/ first * width, first,
                            /*inner*/ outputs * middle, middle > 0 ? outputs : 0})
    begins_.push_back(begins_.back() + size);
  values_.resize(begins_.back(), 0.0F);
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
  between_.resize(texts.size() * static_cast<size_t>(shape_.inner));
  const bool inner = shape_.inner > 0;
  products_.times_transposed({count, inner ? shape_.inner : shape_.outputs, shape_.width}, dropped_.data(),
                             weights.part(HeadArray::classifier).data(), weights.part(HeadArray::classifier_bias),
                             inner ? between_.data() : logits_.data());
  if (!inner) return logits_;
  kernels_.tanh(between_.data(), count * shape_.inner);
  products_.times_transposed({count, shape_.outputs, shape_.inner}, between_.data(),
                             weights.part(HeadArray::inner).data(), weights.part(HeadArray::inner_bias),
                             logits_.data());
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
