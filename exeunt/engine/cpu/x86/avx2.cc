// SPDX-License-Identifier: Apache-2.0
// The table for AVX2 with FMA.
#include <immintrin.h>

#include "exeunt/engine/cpu/table.h"

namespace exeunt::kernel {
namespace {

// Eight floats in a 256-bit register.
struct Lanes {
  static constexpr int kWidth = 8;
  static constexpr bool kBf16 = false;
  static constexpr size_t kQuantizedBytes = 2;  // int16, for vpmaddwd: see Int8Block
  using F = __m256;

  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static __m256i mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F load_part(const float* p, int n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store_part(float* p, F x, int n) { _mm256_maskstore_ps(p, mask(n), x); }
  static F first(F x, int n) { return _mm256_and_ps(x, _mm256_castsi256_ps(mask(n))); }
  static F from_int(const int32_t* p) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F abs(F a) { return _mm256_andnot_ps(set(-0.0F), a); }
  static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F times_power_of_two(F a, F n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }
  static void transpose(F (&x)[kWidth]) {
    F t[kWidth];
    for (int i = 0; i < kWidth; i += 2) {
      t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < kWidth; i += 4) {
      x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < kWidth / 2; ++i) {
      t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
      t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
    for (int i = 0; i < kWidth; ++i) x[i] = t[i];
  }
  static float sum(F a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  static float largest(F a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  static void store_quantized(std::byte* p, F a) {
    const __m256i q = _mm256_cvtps_epi32(a);
    const __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), shorts);
  }
};

// int8 as pairs of int16: vpmaddwd is exact for any values, while vpmaddubsw would saturate. Weights stay bytes in
// memory and are widened once for all rows of the block.
struct Int8Block {
  using Weight = int8_t;
  static constexpr int kRows = 6, kColumns = 16, kOffset = 0;
  static constexpr size_t place(int k, int c) {
    return static_cast<size_t>(k / 2) * 2 * kColumns + static_cast<size_t>(c * 2 + k % 2);
  }
  static constexpr int stored_inputs(int inputs) { return (inputs + 1) / 2 * 2; }

  static __m256i weights(const std::byte* p) {
    return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  }

  template <int rows>
  static void run_rows(const Block& block) {
    __m256i sums[rows][2];
    for (int r = 0; r < rows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    const std::byte* w = block.panel;
    for (int k = 0; k < block.inputs; k += 2, w += 2 * kColumns) {
      const __m256i left = weights(w), right = weights(w + kColumns);
      for (int r = 0; r < rows; ++r) {
        int32_t pair;
        std::memcpy(&pair, block.input + static_cast<size_t>(r) * block.stride + static_cast<size_t>(k) * 2, 4);
        const __m256i x = _mm256_set1_epi32(pair);
        sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(x, left));
        sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(x, right));
      }
    }
    auto* out = static_cast<__m256i*>(block.sums);
    for (int r = 0; r < rows; ++r) {
      _mm256_store_si256(out + 2 * r, sums[r][0]);
      _mm256_store_si256(out + 2 * r + 1, sums[r][1]);
    }
  }
};

struct Parts {
  using Lanes = kernel::Lanes;
  using Floats = FloatBlock<Lanes, 6, 2>;
  using Bf16s = void;
  using Int8s = Int8Block;
  using FloatAttention = kernel::FloatAttention<Lanes, Floats>;

  static bool runs_on(const CpuFeatures& features) { return features.avx2; }
};

}  // namespace

constinit const Kernels kAvx2 = TableOf<Parts>::make("avx2");

}  // namespace exeunt::kernel
