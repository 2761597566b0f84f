// SPDX-License-Identifier: Apache-2.0
// Work along rows: LayerNorm with the packing of its result, and readers.
#pragma once

#include "exeunt/runtime/cpu/operand.h"
#include "exeunt/runtime/cpu/vector_math.h"

namespace exeunt::kernel {

// Σ f(c) over the columns of a row, f giving a vector from column c with zeros where there is no column.
template <class V, class Whole, class Part>
float sum_columns(int columns, Whole whole, Part part) {
  constexpr int w = V::kWidth;
  typename V::F sums[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};  // four chains, for each addition takes a while
  int c = 0;
  for (; c + 4 * w <= columns; c += 4 * w) {
    for (int chain = 0; chain < 4; ++chain) sums[chain] = sums[chain] + whole(c + chain * w);
  }
  for (; c + w <= columns; c += w) sums[0] = sums[0] + whole(c);
  if (c < columns) sums[1] = sums[1] + part(c, columns - c);
  return V::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class V>
void normalize_row(const Normalization& work, float* row) {
  const int columns = work.columns;
  const auto count = static_cast<float>(columns);
  const float mean =
      sum_columns<V>(
          columns, [&](int c) { return V::load(row + c); }, [&](int c, int n) { return V::load_part(row + c, n); }) /
      count;
  const auto middle = V::set(mean);
  const float variance = sum_columns<V>(
                             columns,
                             [&](int c) {
                               const auto d = V::load(row + c) - middle;
                               return d * d;
                             },
                             [&](int c, int n) {
                               const auto d = V::load_part(row + c, n) - V::first(middle, n);
                               return d * d;
                             }) /
                         count;
  const auto scale = V::set(1.0F / __builtin_sqrtf(variance + work.epsilon));
  int c = 0;
  for (; c + V::kWidth <= columns; c += V::kWidth) {
    const auto y = (V::load(row + c) - middle) * scale;
    V::store(row + c, V::fma(y, V::load(work.weight + c), V::load(work.bias + c)));
  }
  if (c < columns) {
    const int n = columns - c;
    const auto y = (V::load_part(row + c, n) - middle) * scale;
    V::store_part(row + c, V::fma(y, V::load_part(work.weight + c, n), V::load_part(work.bias + c, n)), n);
  }
}

template <class V>
void normalize(const Normalization& work) {
  for (int r = work.row; r < work.row + work.rows; ++r) {
    float* row = work.data + static_cast<size_t>(r) * work.stride;
    normalize_row<V>(work, row);
    if (work.next.data != nullptr) pack_row<V>(row, work.next, r);  // still in the first-level cache
  }
}

template <class V>
float dot(const float* a, const float* b, int n) {
  return sum_columns<V>(
      n, [&](int c) { return V::load(a + c) * V::load(b + c); },
      [&](int c, int part) { return V::load_part(a + c, part) * V::load_part(b + c, part); });
}

// values[i] = e^((values[i] − largest) · scale) in place, and their sum.
template <class V>
float exp_all(float* values, int n, float scale) {
  auto most = V::set(values[0]);
  int i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) most = V::max(most, V::load(values + i));
  float largest = V::largest(most);
  for (; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
  const auto by = V::set(scale), offset = V::set(-largest * scale);
  auto sum = V::set(0);
  for (i = 0; i + V::kWidth <= n; i += V::kWidth) {
    const auto e = exp<V>(V::fma(V::load(values + i), by, offset));
    V::store(values + i, e);
    sum = sum + e;
  }
  if (i < n) {
    const auto e = V::first(exp<V>(V::fma(V::load_part(values + i, n - i), by, offset)), n - i);
    V::store_part(values + i, e, n - i);
    sum = sum + e;
  }
  return V::sum(sum);
}

template <class V>
void read(const ReaderCall& call) {
  for (int t = 0; t < call.tokens; ++t) {
    call.scores[t] = dot<V>(call.rows + static_cast<size_t>(t) * call.stride, call.query, call.columns);
  }
  const float inverse = 1.0F / exp_all<V>(call.scores, call.tokens, 1.0F);
  // A strip of columns at a time: its sums stay in registers over all tokens.
  constexpr int strip = 4 * V::kWidth;
  int c = 0;
  for (; c + strip <= call.columns; c += strip) {
    typename V::F sums[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};
    for (int t = 0; t < call.tokens; ++t) {
      const float* row = call.rows + static_cast<size_t>(t) * call.stride + c;
      const auto share = V::set(call.scores[t]);
      for (int i = 0; i < 4; ++i) sums[i] = V::fma(share, V::load(row + i * V::kWidth), sums[i]);
    }
    for (int i = 0; i < 4; ++i) V::store(call.out + c + i * V::kWidth, sums[i] * V::set(inverse));
  }
  for (; c < call.columns; c += V::kWidth) {
    const int n = call.columns - c < V::kWidth ? call.columns - c : V::kWidth;
    auto sum = V::set(0);
    for (int t = 0; t < call.tokens; ++t) {
      const float* row = call.rows + static_cast<size_t>(t) * call.stride + c;
      sum = V::fma(V::set(call.scores[t]), V::load_part(row, n), sum);
    }
    V::store_part(call.out + c, sum * V::set(inverse), n);
  }
}

}  // namespace exeunt::kernel
