// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/formulas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kColumns = 32;  // outputs per panel
constexpr size_t kRows = 2;      // rows that share one pass over a panel

// out[r][c] += sum over k of in[r][k] panel[k][c]. `Rows` is a constant so that the sums stay in registers.
template <size_t Rows>
void add_products(const float* in, size_t inputs, const float* panel, float* out) {
  float sums[Rows][kColumns];
  std::memcpy(sums, out, sizeof sums);
  for (size_t k = 0; k < inputs; ++k, panel += kColumns) {
    for (size_t r = 0; r < Rows; ++r) {
      const float x = in[r * inputs + k];
      for (size_t c = 0; c < kColumns; ++c) sums[r][c] += x * panel[c];
    }
  }
  std::memcpy(out, sums, sizeof sums);
}

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

Linear::Linear(const TensorView& weight, const TensorView& bias) : bias_(to_floats(bias)) {
  check(weight.shape.size() == 2 && weight.shape[0] == static_cast<int64_t>(bias_.size()), "linear: shapes disagree");
  outputs_ = static_cast<int>(weight.shape[0]);
  inputs_ = static_cast<int>(weight.shape[1]);
  const auto outputs = static_cast<size_t>(outputs_), inputs = static_cast<size_t>(inputs_);
  const size_t panels = (outputs + kColumns - 1) / kColumns;
  const std::vector<float> plain = to_floats(weight);
  panels_.assign(panels * inputs * kColumns, 0.0F);
  bias_.resize(panels * kColumns, 0.0F);
  for (size_t o = 0; o < outputs; ++o) {
    float* panel = panels_.data() + o / kColumns * inputs * kColumns;
    for (size_t k = 0; k < inputs; ++k) panel[k * kColumns + o % kColumns] = plain[o * inputs + k];
  }
}

std::vector<float> Linear::operator()(std::span<const float> rows) const {
  const auto outputs = static_cast<size_t>(outputs_), inputs = static_cast<size_t>(inputs_);
  check(inputs > 0 && rows.size() % inputs == 0, "linear: the input is not a number of whole rows");
  const size_t count = rows.size() / inputs;
  std::vector<float> out(count * outputs);
  std::array<float, kRows * kColumns> block;
  for (size_t begin = 0; begin < outputs; begin += kColumns) {
    const float* panel = panels_.data() + begin * inputs;
    const size_t columns = std::min(kColumns, outputs - begin);
    for (size_t row = 0; row < count;) {
      const size_t height = count - row >= kRows ? kRows : 1;
      for (size_t r = 0; r < height; ++r) std::copy_n(bias_.data() + begin, kColumns, block.data() + r * kColumns);
      const float* in = rows.data() + row * inputs;
      if (height == kRows) {
        add_products<kRows>(in, inputs, panel, block.data());
      } else {
        add_products<1>(in, inputs, panel, block.data());
      }
      for (size_t r = 0; r < height; ++r) {
        std::copy_n(block.data() + r * kColumns, columns, out.data() + (row + r) * outputs + begin);
      }
      row += height;
    }
  }
  return out;
}

float gelu(float x) noexcept {
  return 0.5F * x * (1.0F + std::erf(x / std::numbers::sqrt2_v<float>));
}

float gelu_new(float x) noexcept {
  constexpr float kScale = 0.7978845608F;  // √(2/π)
  return 0.5F * x * (1.0F + std::tanh(kScale * (x + 0.044715F * x * x * x)));
}

float sigmoid(float x) noexcept {
  // exp of a negative number only: it cannot overflow.
  const float e = std::exp(-std::abs(x));
  return x >= 0 ? 1.0F / (1.0F + e) : e / (1.0F + e);
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

void activate(PoolerActivation activation, std::span<float> values) noexcept {
  switch (activation) {
    case PoolerActivation::tanh:
      return tanh_all(values);
    case PoolerActivation::relu:
      return activate(Activation::relu, values);
    case PoolerActivation::gelu:
      return activate(Activation::gelu, values);
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

void layer_norm(std::span<float> rows, const NormWeights& norm) noexcept {
  const size_t width = norm.weight.size();
  for (size_t at = 0; at < rows.size(); at += width) {
    const std::span<float> row = rows.subspan(at, width);
    float mean = 0;
    for (const float x : row) mean += x;
    mean /= static_cast<float>(width);
    float variance = 0;
    for (const float x : row) variance += (x - mean) * (x - mean);
    variance /= static_cast<float>(width);
    const float deviation = std::sqrt(variance + norm.epsilon);
    for (size_t i = 0; i < width; ++i) row[i] = (row[i] - mean) / deviation * norm.weight[i] + norm.bias[i];
  }
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
