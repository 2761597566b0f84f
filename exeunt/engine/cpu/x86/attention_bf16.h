// SPDX-License-Identifier: Apache-2.0
// Attention in bf16 for AVX-512, over any way M to multiply small matrices of bf16 pairs. Per head the keys and values
// are laid out as right operands: 32 bits hold two adjacent inputs of one output. Scores and softmax are in fp32; the
// probabilities are rounded to bf16 for the product with the values.
#pragma once

#include "exeunt/engine/cpu/row_kernels.h"
#include "exeunt/engine/cpu/x86/lanes_avx512.h"

namespace exeunt::kernel {
namespace {

// sums [rows, columns] = a [rows, 2 · pairs] b [pairs, columns]. M takes rows up to M::kRows (and may compute and store
// up to kRows), pairs in multiples of 16 and columns in multiples of 16. Strides are in elements.
struct PairProduct {
  const uint16_t* a;
  size_t a_stride;
  const uint32_t* b;
  size_t b_stride;
  float* sums;
  size_t sums_stride;
  int rows, pairs, columns;
};

template <class V, class M>
struct Bf16Attention {
  static constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

  // Elements of a row of n, each of `bytes`, in an odd number of cache lines: rows of a tile then never map to the
  // same L1 set.
  static constexpr int stride_of(int n, int bytes) { return (round_up(n * bytes, 64) / 64 | 1) * (64 / bytes); }

  struct Sizes {
    Sizes(int token_count, int head_width)
        : tokens(round_up(token_count, 32)),
          inner(round_up(head_width, 32)),
          outer(round_up(head_width, 16)),
          token_stride(stride_of(tokens, 4)),
          share_stride(stride_of(tokens, 2)),
          query_stride(stride_of(inner, 2)),
          outer_stride(stride_of(outer, 4)) {}
    int tokens, inner, outer;
    int token_stride, share_stride, query_stride, outer_stride;
  };

  // Keys [width / 2] [tokens] pairs, values [tokens / 2] [width] pairs, then the rows of one block of queries.
  struct Scratch : Sizes {
    Scratch(std::byte* data, int token_count, int head_width) : Sizes(token_count, head_width) {
      keys = reinterpret_cast<uint32_t*>(data);
      values = keys + this->inner / 2 * this->token_stride;
      scores = reinterpret_cast<float*>(values + this->tokens / 2 * this->outer_stride);
      context = scores + M::kRows * this->token_stride;
      shares = reinterpret_cast<uint16_t*>(context + M::kRows * this->outer_stride);
      queries = shares + M::kRows * this->share_stride;
    }
    static size_t bytes(int token_count, int head_width) {
      const Sizes s(token_count, head_width);
      const int words =
          s.inner / 2 * s.token_stride + s.tokens / 2 * s.outer_stride + M::kRows * (s.token_stride + s.outer_stride);
      return sizeof(float) * static_cast<size_t>(words) +
             sizeof(uint16_t) * static_cast<size_t>(M::kRows) * static_cast<size_t>(s.share_stride + s.query_stride);
    }
    uint32_t *keys, *values;
    float *scores, *context;
    uint16_t *shares, *queries;
  };

  // 32 of the `count` values from `from` on, padded with zeros.
  static __m512i load(const uint16_t* from, int at, int count) {
    const int left = count - at;
    if (left >= 32) return _mm512_loadu_si512(from + at);
    return left <= 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16((1U << left) - 1U, from + at);
  }

  static const uint16_t* head_row(const void* rows, const Attention& work, int head, int row) {
    return static_cast<const uint16_t*>(rows) + static_cast<size_t>(row) * work.stride +
           static_cast<size_t>(head) * static_cast<size_t>(work.head_width);
  }

  static void load_keys(const Attention& work, int head, const Scratch& s) {
    for (int t = 0; t < s.tokens; t += 16) {
      for (int pair = 0; pair < s.inner / 2; pair += 16) {
        __m512i x[16];
        for (int i = 0; i < 16; ++i) {
          x[i] = t + i < work.tokens ? load(head_row(work.key, work, head, t + i), 2 * pair, work.head_width)
                                     : _mm512_setzero_si512();
        }
        transpose(x);
        for (int i = 0; i < 16; ++i) _mm512_storeu_si512(s.keys + (pair + i) * s.token_stride + t, x[i]);
      }
    }
  }

  static void load_values(const Attention& work, int head, const Scratch& s) {
    // Columns 0…15 of two rows side by side, and columns 16…31.
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int t = 0; t < s.tokens; t += 2) {
      for (int c = 0; c < s.outer; c += 32) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i a = t < work.tokens ? load(head_row(work.value, work, head, t), c, work.head_width) : zero;
        const __m512i b =
            t + 1 < work.tokens ? load(head_row(work.value, work, head, t + 1), c, work.head_width) : zero;
        uint32_t* to = s.values + t / 2 * s.outer_stride + c;
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
        if (c + 16 < s.outer) _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(a, high, b));
      }
    }
  }

  // 2^y for y ≤ 0 with a relative error of 8e-5, well below bf16's: 2^(y − ⌊y⌋) by a cubic, then the exponent.
  static __m512 power_of_two(__m512 y) {
    const __m512 fraction = _mm512_reduce_ps(y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    constexpr float cubic[] = {0.99992528F, 0.69583313F, 0.22606774F, 0.07802436F};
    return _mm512_scalef_ps(polynomial<V>(cubic, fraction), y);
  }

  // Unnormalised probabilities e^((score − largest) · scale) of `rows` rows. Rows are interleaved, because the steps of
  // one row depend on each other.
  template <int rows>
  static void share(const float* scores, uint16_t* shares, const Scratch& s, int tokens, float scale, float* sums) {
    const int whole = tokens / 16 * 16;
    const __mmask16 rest = V::mask(tokens - whole);
    __m512 factor = V::set(scale * 1.44269504F), offset[rows], sum[rows];
    for (int r = 0; r < rows; ++r) offset[r] = V::set(scores[r * s.token_stride]);
    for (int t = 0; t < whole; t += 16) {
      for (int r = 0; r < rows; ++r) offset[r] = V::max(offset[r], V::load(scores + r * s.token_stride + t));
    }
    for (int r = 0; r < rows; ++r) {
      if (rest != 0)
        offset[r] = _mm512_mask_max_ps(offset[r], rest, offset[r], V::load(scores + r * s.token_stride + whole));
      offset[r] = V::set(-V::largest(offset[r])) * factor;
      sum[r] = V::set(0);
    }
    // Two vectors form one cache line, written at once: tile loads stall on a line that is written in parts.
    for (int t = 0; t < s.tokens; t += 32) {
      const auto mask = [&](int at) {
        return at < whole ? static_cast<__mmask16>(0xffff) : at == whole ? rest : static_cast<__mmask16>(0);
      };
      const __mmask16 low = mask(t), high = mask(t + 16);
      for (int r = 0; r < rows; ++r) {
        const float* from = scores + r * s.token_stride + t;
        const __m512 a = _mm512_maskz_mov_ps(low, power_of_two(V::fma(V::load(from), factor, offset[r])));
        const __m512 b = _mm512_maskz_mov_ps(high, power_of_two(V::fma(V::load(from + 16), factor, offset[r])));
        _mm512_storeu_si512(shares + r * s.share_stride + t, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
        sum[r] = sum[r] + (a + b);
      }
    }
    for (int r = 0; r < rows; ++r) sums[r] = V::sum(sum[r]);
  }

  static void store_row(const Attention& work, int head, int row, const float* context, __m512 by) {
    const int width = work.head_width;
    const auto column = static_cast<size_t>(head) * static_cast<size_t>(width);
    float* floats = nullptr;
    uint16_t* bf16 = nullptr;
    if (work.context != nullptr) {
      floats = work.context + static_cast<size_t>(row) * work.context_stride + column;
    } else {
      std::byte* to = Rows<V>::row(work.next, work.next_row + row);
      floats = reinterpret_cast<float*>(to) + column;
      if (work.next.precision == Precision::bf16) bf16 = reinterpret_cast<uint16_t*>(to) + column;
    }
    for (int c = 0; c < width; c += 16) {
      const __m512 y = V::load(context + c) * by;
      const __mmask16 mask = width - c >= 16 ? static_cast<__mmask16>(0xffff) : V::mask(width - c);
      if (bf16 != nullptr) {
        _mm256_mask_storeu_epi16(bf16 + c, mask, V::to_bf16(y));
      } else {
        _mm512_mask_storeu_ps(floats + c, mask, y);
      }
    }
    if (work.context == nullptr && (head + 1) * width == work.next.columns) {
      Rows<V>::clear_padding(work.next, work.next_row + row);
    }
  }

  static void run_rows(const Attention& work, int head, const Scratch& s, int row, int rows) {
    for (int r = 0; r < rows; ++r) {
      const uint16_t* query = head_row(work.query, work, head, row + r);
      for (int c = 0; c < s.inner; c += 32) {
        _mm512_storeu_si512(s.queries + r * s.query_stride + c, load(query, c, work.head_width));
      }
    }
    const auto size = [](int n) { return static_cast<size_t>(n); };
    M::run({.a = s.queries,
            .a_stride = size(s.query_stride),
            .b = s.keys,
            .b_stride = size(s.token_stride),
            .sums = s.scores,
            .sums_stride = size(s.token_stride),
            .rows = rows,
            .pairs = s.inner / 2,
            .columns = s.tokens});
    const float scale = scale_of<V>(work);
    float sums[M::kRows];
    int r = 0;
    for (; r < rows; ++r) {
      float* scores = s.scores + r * s.token_stride;
      add_bias<V>(work, row + r, scores);
      const SeenKeys seen = seen_keys<V>(work, row + r, 1);
      for (int t = 0; t < seen.begin; ++t) scores[t] = kHidden;
      for (int t = seen.end; t < work.tokens; ++t) scores[t] = kHidden;
    }
    r = 0;
    for (; r + 4 <= rows; r += 4) {
      share<4>(s.scores + r * s.token_stride, s.shares + r * s.share_stride, s, work.tokens, scale, sums + r);
    }
    for (; r < rows; ++r)
      share<1>(s.scores + r * s.token_stride, s.shares + r * s.share_stride, s, work.tokens, scale, sums + r);
    M::run({.a = s.shares,
            .a_stride = size(s.share_stride),
            .b = s.values,
            .b_stride = size(s.outer_stride),
            .sums = s.context,
            .sums_stride = size(s.outer_stride),
            .rows = rows,
            .pairs = s.tokens / 2,
            .columns = s.outer});
    for (r = 0; r < rows; ++r) {
      store_row(work, head, row + r, s.context + r * s.outer_stride, V::set(1.0F / sums[r]));
    }
  }

  static void attend(const Attention& work) {
    const Scratch scratch(work.scratch, work.tokens, work.head_width);
    M::begin();
    for (int head = work.head; head < work.head + work.heads; ++head) {
      load_keys(work, head, scratch);
      load_values(work, head, scratch);
      const int end = work.row + work.rows;
      for (int row = work.row; row < end; row += M::kRows) {
        run_rows(work, head, scratch, row, end - row < M::kRows ? end - row : M::kRows);
      }
    }
    M::end();
  }
};

}  // namespace
}  // namespace exeunt::kernel
