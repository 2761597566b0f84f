// SPDX-License-Identifier: Apache-2.0
// Sixteen floats in a 512-bit register (AVX-512 F, BW, DQ, VL). Each source that includes this gets Lanes of its own.
#pragma once

#include <immintrin.h>

#include "exeunt/engine/cpu/operand.h"

namespace exeunt::kernel {
namespace {

// Transposes sixteen rows of sixteen 32-bit values.
inline void transpose(__m512i (&x)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    x[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    x[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    x[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

struct Avx512Lanes {
  static constexpr int kWidth = 16;
  using F = __m512;

  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static __mmask16 mask(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static F load_part(const float* p, int n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store_part(float* p, F x, int n) { _mm512_mask_storeu_ps(p, mask(n), x); }
  static F first(F x, int n) { return _mm512_maskz_mov_ps(mask(n), x); }
  static F from_int(const int32_t* p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(p)); }

  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F times_power_of_two(F a, F n) { return _mm512_scalef_ps(a, n); }

  static void transpose(F (&x)[kWidth]) {
    __m512i bits[kWidth];
    for (int i = 0; i < kWidth; ++i) bits[i] = _mm512_castps_si512(x[i]);
    kernel::transpose(bits);
    for (int i = 0; i < kWidth; ++i) x[i] = _mm512_castsi512_ps(bits[i]);
  }

  static __m256 halves(F a, bool upper) { return upper ? _mm512_extractf32x8_ps(a, 1) : _mm512_castps512_ps256(a); }
  static float sum(F a) {
    const __m256 h = _mm256_add_ps(halves(a, false), halves(a, true));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  static float largest(F a) {
    const __m256 h = _mm256_max_ps(halves(a, false), halves(a, true));
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }

  // Four vectors of values between −127 and 127 as bytes. Packing works within quarters of a register; the last step
  // puts them in order.
  static __m512i to_bytes(F a, F b, F c, F d) {
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
  }

#ifdef __AVX512BF16__
  static constexpr bool kBf16 = true;
  static __m256i to_bf16(F a) {
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a));
  }
  // The first n values, and zeros.
  static F load_bf16(const uint16_t* p, int n) {
    const __m256i bits =
        n < kWidth ? _mm256_maskz_loadu_epi16(mask(n), p) : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static void store_bf16(uint16_t* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(a));
  }
  static void store_bf16_part(uint16_t* p, F a, int n) {
    _mm256_mask_storeu_epi16(p, mask(n), to_bf16(a));
  }
#else
  static constexpr bool kBf16 = false;
#endif
};

}  // namespace
}  // namespace exeunt::kernel
