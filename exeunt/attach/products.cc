// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/products.h"

#include <algorithm>

namespace exeunt {
namespace {

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

void sum_rows(const float* rows, size_t count, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (size_t t = 0; t < count; ++t) {
    const float* row = rows + t * out.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] += row[i];
  }
}

}  // namespace exeunt
