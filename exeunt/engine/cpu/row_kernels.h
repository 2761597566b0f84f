// SPDX-License-Identifier: Apache-2.0
// Work along rows: LayerNorm with the packing of its result, rotary positions, what distances add to scores, readers.
#pragma once

#include "exeunt/engine/cpu/operand.h"
#include "exeunt/engine/cpu/vector_math.h"

namespace exeunt::kernel {

// Σ f(c) over the columns of a row. `whole` adds the vector from column c on to a sum, `part` one of n columns.
template <class V, class Whole, class Part>
float sum_columns(int columns, Whole whole, Part part) {
  constexpr int w = V::kWidth;
  typename V::F sums[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};  // four independent chains hide the latency
  int c = 0;
  for (; c + 4 * w <= columns; c += 4 * w) {
    for (int chain = 0; chain < 4; ++chain) sums[chain] = whole(sums[chain], c + chain * w);
  }
  for (; c + w <= columns; c += w) sums[0] = whole(sums[0], c);
  if (c < columns) sums[1] = part(sums[1], c, columns - c);
  return V::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Returns the largest |value| of the result, which quantisation needs next. `to` may be `row`.
template <class V>
float normalize_row(const Normalization& work, const float* row, float* to) {
  using F = typename V::F;
  constexpr int w = V::kWidth;
  const int columns = work.columns;
  const auto count = static_cast<float>(columns);
  const float mean = sum_columns<V>(
                         columns, [&](F sum, int c) { return sum + V::load(row + c); },
                         [&](F sum, int c, int n) { return sum + V::load_part(row + c, n); }) /
                     count;
  const F middle = V::set(mean);
  const auto square = [](F sum, F d) { return V::fma(d, d, sum); };
  const float variance =
      sum_columns<V>(
          columns, [&](F sum, int c) { return square(sum, V::load(row + c) - middle); },
          [&](F sum, int c, int n) { return square(sum, V::load_part(row + c, n) - V::first(middle, n)); }) /
      count;
  const F scale = V::set(1.0F / __builtin_sqrtf(variance + work.epsilon));
  F most[2] = {V::set(0), V::set(0)};
  const auto step = [&](int c, F& largest) {
    const F y = V::fma((V::load(row + c) - middle) * scale, V::load(work.weight + c), V::load(work.bias + c));
    V::store(to + c, y);
    largest = V::max(largest, V::abs(y));
  };
  int c = 0;
  for (; c + 2 * w <= columns; c += 2 * w) {
    step(c, most[0]);
    step(c + w, most[1]);
  }
  for (; c + w <= columns; c += w) step(c, most[0]);
  if (c < columns) {
    const int n = columns - c;
    const F y = V::fma((V::load_part(row + c, n) - middle) * scale, V::load_part(work.weight + c, n),
                       V::load_part(work.bias + c, n));
    V::store_part(to + c, y, n);
    most[1] = V::max(most[1], V::abs(V::first(y, n)));
  }
  return V::largest(V::max(most[0], most[1]));
}

// Calls pack(row, largest |value|, its number) for every normalised row that is the operand of a product next.
template <class V, class Pack>
void normalize_rows(const Normalization& work, Pack pack) {
  for (int r = work.row; r < work.row + work.rows; ++r) {
    const size_t at = static_cast<size_t>(r) * work.stride;
    float* row = work.from != nullptr ? work.data : work.data + at;
    const float largest = normalize_row<V>(work, work.from != nullptr ? work.from + at : row, row);
    if (work.next.data != nullptr) pack(row, largest, r);
  }
}

template <class V>
void normalize(const Normalization& work) {
  normalize_rows<V>(work, [&](const float* row, float largest, int r) {
    if (work.next.precision == Precision::int8) {
      quantize_row<V>(row, largest, work.next, r);
    } else {
      round_row<V>(row, work.next, r);
    }
  });
}

template <class V>
float dot(const float* a, const float* b, int n) {
  return sum_columns<V>(
      n, [&](typename V::F sum, int c) { return V::fma(V::load(a + c), V::load(b + c), sum); },
      [&](typename V::F sum, int c, int part) {
        return V::fma(V::load_part(a + c, part), V::load_part(b + c, part), sum);
      });
}

// a and b turned by an angle: without contraction, so that every table gives the same bits.
template <class V>
void turn(typename V::F& a, typename V::F& b, typename V::F cosine, typename V::F sine) {
  const auto low = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = low;
}

template <class V>
void rotate_floats(const RotaryCall& call) {
  constexpr int w = V::kWidth;
  for (int head = 0; head < call.columns; head += 2 * call.pairs) {
    float *low = static_cast<float*>(call.row) + head, *high = low + call.pairs;
    int i = 0;
    for (; i + w <= call.pairs; i += w) {
      auto a = V::load(low + i), b = V::load(high + i);
      turn<V>(a, b, V::load(call.cosine + i), V::load(call.sine + i));
      V::store(low + i, a);
      V::store(high + i, b);
    }
    if (const int n = call.pairs - i; n > 0) {
      auto a = V::load_part(low + i, n), b = V::load_part(high + i, n);
      turn<V>(a, b, V::load_part(call.cosine + i, n), V::load_part(call.sine + i, n));
      V::store_part(low + i, a, n);
      V::store_part(high + i, b, n);
    }
  }
}

template <class V>
void rotate_bf16(const RotaryCall& call) {
  constexpr int w = V::kWidth;
  for (int head = 0; head < call.columns; head += 2 * call.pairs) {
    uint16_t *low = static_cast<uint16_t*>(call.row) + head, *high = low + call.pairs;
    for (int i = 0; i < call.pairs; i += w) {
      const int n = call.pairs - i < w ? call.pairs - i : w;
      auto a = V::load_bf16(low + i, n), b = V::load_bf16(high + i, n);
      turn<V>(a, b, n < w ? V::load_part(call.cosine + i, n) : V::load(call.cosine + i),
              n < w ? V::load_part(call.sine + i, n) : V::load(call.sine + i));
      n < w ? V::store_bf16_part(low + i, a, n) : V::store_bf16(low + i, a);
      n < w ? V::store_bf16_part(high + i, b, n) : V::store_bf16(high + i, b);
    }
  }
}

template <class V>
void rotate(const RotaryCall& call) {
  if constexpr (V::kBf16) {
    if (call.precision == Precision::bf16) return rotate_bf16<V>(call);
  }
  rotate_floats<V>(call);
}

// The slow definition, for queries [row, row_end) and keys [key, key_end).
template <class V>
void add_each_distance(const DistanceCall& work, int row, int row_end, int key, int key_end) {
  for (int r = row; r < row_end; ++r) {
    const float* of_query = work.of_query + static_cast<size_t>(r) * work.stride;
    float* bias = work.bias + static_cast<size_t>(r) * work.bias_stride;
    for (int t = key; t < key_end; ++t) {
      const int place = work.place[work.first + r - t];
      const float* of_key = work.of_key + static_cast<size_t>(t) * work.stride;
      bias[t] = of_query[work.places - 1 - place] + of_key[place];
    }
  }
}

// Squares of queries by keys. Within `straight`, a key's next query is at its next place, and a query's next key is,
// too: whole vectors of both, one of them turned from queries along keys into keys along queries.
template <class V>
void add_distances(const DistanceCall& work) {
  constexpr int w = V::kWidth;
  for (int key = 0; key < work.tokens; key += w) {
    for (int row = 0; row < work.rows; row += w) {
      const int distance = work.first + row - key;  // of the first query and the first key; others are up to w − 1 off
      if (row + w > work.rows || key + w > work.tokens || distance + w - 1 > work.straight ||
          distance - w + 1 < -work.straight) {
        add_each_distance<V>(work, row, row + w < work.rows ? row + w : work.rows, key,
                             key + w < work.tokens ? key + w : work.tokens);
        continue;
      }
      const int place = work.place[0] + distance;
      typename V::F square[w];
      for (int k = 0; k < w; ++k) {
        square[k] = V::load(work.of_key + static_cast<size_t>(key + k) * work.stride + (place - k));
      }
      V::transpose(square);
      for (int r = 0; r < w; ++r) {
        const float* of_query = work.of_query + static_cast<size_t>(row + r) * work.stride;
        V::store(work.bias + static_cast<size_t>(row + r) * work.bias_stride + key,
                 V::load(of_query + (work.places - 1 - place - r)) + square[r]);
      }
    }
  }
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
float scale_of(const Attention& work) {
  return work.scale > 0 ? work.scale : 1.0F / __builtin_sqrtf(static_cast<float>(work.head_width));
}

// The keys [begin, end) that the queries [row, row + rows) see.
struct SeenKeys {
  int begin, end;
};
template <class V>
SeenKeys seen_keys(const Attention& work, int row, int rows) {
  if (work.window == 0) return {0, work.tokens};
  const int begin = row - work.window - work.first_key, end = row + rows + work.window - work.first_key;
  return {begin < 0 ? 0 : begin, end < work.tokens ? end : work.tokens};
}

// The bias of attention's row `row`, added to its scores.
template <class V>
void add_bias(const Attention& work, int row, float* scores) {
  if (work.bias == nullptr) return;
  const float* bias = work.bias + static_cast<size_t>(row - work.row) * work.bias_stride;
  int t = 0;
  for (; t + V::kWidth <= work.tokens; t += V::kWidth) V::store(scores + t, V::load(scores + t) + V::load(bias + t));
  for (; t < work.tokens; ++t) scores[t] += bias[t];
}

template <class V>
void tanh_all(float* values, int n) {
  int i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) V::store(values + i, tanh<V>(V::load(values + i)));
  if (i < n) V::store_part(values + i, tanh<V>(V::load_part(values + i, n - i)), n - i);
}

template <class V>
void read(const ReaderCall& call) {
  for (int t = 0; t < call.tokens; ++t) {
    call.scores[t] = dot<V>(call.rows + static_cast<size_t>(t) * call.stride, call.query, call.columns);
  }
  const float inverse = 1.0F / exp_all<V>(call.scores, call.tokens, 1.0F);
  // A strip of columns at a time: its sums stay in registers over all tokens. A wider strip reads more of a row at
  // once, and twelve vectors leave enough of 16 registers for the rest of the loop.
  constexpr int vectors = 12, strip = vectors * V::kWidth;
  int c = 0;
  for (; c + strip <= call.columns; c += strip) {
    typename V::F sums[vectors];
    for (int i = 0; i < vectors; ++i) sums[i] = V::set(0);
    for (int t = 0; t < call.tokens; ++t) {
      const float* row = call.rows + static_cast<size_t>(t) * call.stride + c;
      const auto share = V::set(call.scores[t]);
      for (int i = 0; i < vectors; ++i) sums[i] = V::fma(share, V::load(row + i * V::kWidth), sums[i]);
    }
    for (int i = 0; i < vectors; ++i) V::store(call.out + c + i * V::kWidth, sums[i] * V::set(inverse));
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
