// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/encoder_formulas.h"

#include <algorithm>
#include <cmath>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

std::vector<float> mean_row(std::span<const float> rows, size_t hidden) {
  std::vector<float> mean(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(hidden));
  for (size_t at = hidden; at < rows.size(); at += hidden) add_to(mean, rows.subspan(at, hidden));
  const size_t count = rows.size() / hidden;
  for (float& value : mean) value /= static_cast<float>(count);
  return mean;
}

std::vector<float> max_row(std::span<const float> rows, size_t hidden) {
  std::vector<float> largest(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(hidden));
  for (size_t at = hidden; at < rows.size(); at += hidden) {
    for (size_t i = 0; i < hidden; ++i) largest[i] = std::max(largest[i], rows[at + i]);
  }
  return largest;
}

}  // namespace

float gelu_new(float x) noexcept {
  constexpr float kScale = 0.7978845608F;  // √(2/π)
  return 0.5F * x * (1.0F + std::tanh(kScale * (x + 0.044715F * x * x * x)));
}

void activate(Activation activation, std::span<float> values) noexcept {
  switch (activation) {
    case Activation::gelu:
      for (float& value : values) value = gelu(value);
      break;
    case Activation::gelu_new:
      for (float& value : values) value = gelu_new(value);
      break;
    case Activation::relu:
      for (float& value : values) value = std::max(value, 0.0F);
      break;
  }
}

void add_to(std::span<float> sum, std::span<const float> other) noexcept {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

void tanh_all(std::span<float> values) noexcept {
  for (float& value : values) value = std::tanh(value);
}

void softmax(std::span<float> values) noexcept {
  if (values.empty()) return;
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

namespace {

float dot(const float* a, const float* b, size_t n) noexcept {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_distances(const AttentionInput& input, size_t head, size_t row, std::span<float> scores) {
  const auto hidden = static_cast<size_t>(input.hidden);
  const size_t width = hidden / static_cast<size_t>(input.heads), column = head * width;
  const float* query = input.query.data() + row * hidden + column;
  for (size_t other = 0; other < scores.size(); ++other) {
    const auto distance = static_cast<int>(row) - static_cast<int>(other);
    const size_t at = static_cast<size_t>(input.buckets->row(distance)) * hidden + column;
    scores[other] += dot(query, input.distance_keys.data() + at, width);
    scores[other] += dot(input.key.data() + other * hidden + column, input.distance_queries.data() + at, width);
  }
}

void hide_beyond(int window, size_t row, std::span<float> scores) noexcept {
  if (window == 0) return;
  for (size_t other = 0; other < scores.size(); ++other) {
    const size_t apart = row > other ? row - other : other - row;
    if (apart > static_cast<size_t>(window)) scores[other] = -INFINITY;
  }
}

}  // namespace

void rotate(std::span<float> rows, int hidden, const Rotation& rotation) noexcept {
  const auto width = static_cast<size_t>(hidden), half = static_cast<size_t>(rotation.pairs());
  for (size_t t = 0; t * width < rows.size(); ++t) {
    const float *cosine = rotation.cosines(static_cast<int>(t)), *sine = rotation.sines(static_cast<int>(t));
    for (size_t head = 0; head < width; head += 2 * half) {
      float *low = rows.data() + t * width + head, *high = low + half;
      for (size_t i = 0; i < half; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
      }
    }
  }
}

std::vector<float> attend(const AttentionInput& input) {
  const auto hidden = static_cast<size_t>(input.hidden), heads = static_cast<size_t>(input.heads);
  const size_t rows = input.query.size() / hidden, width = hidden / heads;
  const bool relative = input.buckets != nullptr;
  const float root = std::sqrt(static_cast<float>(relative ? 3 * width : width));
  std::vector<float> context(rows * hidden, 0.0F), scores(rows), keys(width * rows);
  for (size_t head = 0; head < heads; ++head) {
    const size_t column = head * width;
    for (size_t t = 0; t < rows; ++t) {  // this head's keys as [width, rows]: the score loop then runs along rows
      for (size_t c = 0; c < width; ++c) keys[c * rows + t] = input.key[t * hidden + column + c];
    }
    for (size_t t = 0; t < rows; ++t) {
      std::fill(scores.begin(), scores.end(), 0.0F);
      for (size_t c = 0; c < width; ++c) {
        const float q = input.query[t * hidden + column + c];
        for (size_t other = 0; other < rows; ++other) scores[other] += q * keys[c * rows + other];
      }
      if (relative) add_distances(input, head, t, scores);
      for (float& score : scores) score /= root;
      hide_beyond(input.window, t, scores);
      softmax(scores);
      float* out = context.data() + t * hidden + column;
      for (size_t other = 0; other < rows; ++other) {
        const float* value = input.value.data() + other * hidden + column;
        for (size_t c = 0; c < width; ++c) out[c] += scores[other] * value[c];
      }
    }
  }
  return context;
}

std::vector<float> pool_input(std::span<const float> rows, int hidden, PoolInput kind) {
  const auto width = static_cast<size_t>(hidden);
  check(!rows.empty() && rows.size() % width == 0, "pool_input: no whole rows");
  std::vector<float> out;
  const auto join = [&](std::vector<float> part) {
    if (out.empty()) return out.swap(part);
    add_to(out, part);
  };
  if (pools_first(kind)) join({rows.begin(), rows.begin() + hidden});
  if (pools_mean(kind)) join(mean_row(rows, width));
  if (pools_max(kind)) join(max_row(rows, width));
  return out;
}

std::vector<float> reader_input(std::span<const float> rows, std::span<const float> query) {
  const size_t width = query.size();
  check(!rows.empty() && rows.size() % width == 0, "reader_input: no whole rows");
  std::vector<float> attention(rows.size() / width, 0.0F);
  for (size_t t = 0; t < attention.size(); ++t) {
    for (size_t c = 0; c < width; ++c) attention[t] += rows[t * width + c] * query[c];
  }
  softmax(attention);
  std::vector<float> out(2 * width, 0.0F);
  std::copy_n(rows.data(), width, out.data());
  for (size_t t = 0; t < attention.size(); ++t) {
    for (size_t c = 0; c < width; ++c) out[width + c] += attention[t] * rows[t * width + c];
  }
  return out;
}

}  // namespace exeunt
