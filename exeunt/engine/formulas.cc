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

float sigmoid(float x) noexcept {
  // exp of a negative number only: it cannot overflow.
  const float e = std::exp(-std::abs(x));
  return x >= 0 ? 1.0F / (1.0F + e) : e / (1.0F + e);
}

void activate(PoolerActivation activation, std::span<float> values) noexcept {
  for (float& value : values) {
    switch (activation) {
      case PoolerActivation::tanh:
        value = std::tanh(value);
        break;
      case PoolerActivation::relu:
        value = std::max(value, 0.0F);
        break;
      case PoolerActivation::gelu:
        value = gelu(value);
        break;
    }
  }
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

}  // namespace exeunt
