// SPDX-License-Identifier: Apache-2.0
// Blocks of 8 rows and 48 outputs in 512-bit registers: 24 sums, three vectors of weights and one value of the input,
// which leaves four of 32 registers. A value meets three vectors of weights at once, so loads never stall the sums.
#pragma once

#include "exeunt/engine/cpu/product.h"
#include "exeunt/engine/cpu/x86/lanes_avx512.h"

namespace exeunt::kernel {
namespace {

// The common loop: `Step` says how 32 bits of the input and a vector of weights join a vector of sums.
template <class Step>
struct Avx512Block {
  using Weight = typename Step::Weight;
  static constexpr int kRows = 8, kVectors = 3, kColumns = 16 * kVectors, kGroup = Step::kGroup;
  static constexpr int kOffset = Step::kOffset;
  static constexpr size_t place(int k, int c) {
    return static_cast<size_t>(k / kGroup) * (kGroup * kColumns) + static_cast<size_t>(c * kGroup + k % kGroup);
  }
  static constexpr int stored_inputs(int inputs) { return (inputs + kGroup - 1) / kGroup * kGroup; }

  template <int rows>
  static void run_rows(const Block& block) {
    using Sum = typename Step::Sum;
    Sum sums[rows][kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const Sum start = Step::start(block.corrections, v);
      for (int r = 0; r < rows; ++r) sums[r][v] = start;
    }
    const std::byte* w = block.panel;
    const std::byte* x = block.input;
    constexpr size_t vector_bytes = 16 * kGroup * sizeof(Weight);
    for (int k = 0; k < block.inputs; k += kGroup, w += kVectors * vector_bytes, x += sizeof(int32_t)) {
      typename Step::Weights weights[kVectors];
      for (int v = 0; v < kVectors; ++v) weights[v] = Step::weights(w + static_cast<size_t>(v) * vector_bytes);
      for (int r = 0; r < rows; ++r) {
        int32_t bits;
        std::memcpy(&bits, x + static_cast<size_t>(r) * block.stride, sizeof(bits));
        for (int v = 0; v < kVectors; ++v) Step::join(sums[r][v], _mm512_set1_epi32(bits), weights[v]);
      }
    }
    auto* out = static_cast<std::byte*>(block.sums);
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(out + static_cast<size_t>(r * kVectors + v) * sizeof(Sum), &sums[r][v], sizeof(Sum));
      }
    }
  }
};

#ifdef __AVX512BF16__
// Pairs of bf16.
struct Bf16Step {
  using Weight = uint16_t;
  using Sum = __m512;
  using Weights = __m512bh;
  static constexpr int kGroup = 2, kOffset = 0;
  static Sum start(const int32_t*, int) { return _mm512_setzero_ps(); }
  static Weights weights(const std::byte* p) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p)); }
  static void join(Sum& sum, __m512i x, Weights w) { sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), w); }
};
#endif

#ifdef __AVX512VNNI__
// Groups of four bytes: vpdpbusd needs an unsigned left operand, so operands are stored with an offset of 128 and sums
// start from −128 · (sum of the output's weights).
struct VnniStep {
  using Weight = int8_t;
  using Sum = __m512i;
  using Weights = __m512i;
  static constexpr int kGroup = 4, kOffset = 128;
  static Sum start(const int32_t* corrections, int v) { return _mm512_loadu_si512(corrections + 16 * v); }
  static Weights weights(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void join(Sum& sum, __m512i x, Weights w) { sum = _mm512_dpbusd_epi32(sum, x, w); }
};
#endif

// Pairs of int16, for processors without vpdpbusd: exact for any values. Weights stay bytes in memory.
struct MaddStep {
  using Weight = int8_t;
  using Sum = __m512i;
  using Weights = __m512i;
  static constexpr int kGroup = 2, kOffset = 0;
  static Sum start(const int32_t*, int) { return _mm512_setzero_si512(); }
  static Weights weights(const std::byte* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void join(Sum& sum, __m512i x, Weights w) { sum = _mm512_add_epi32(sum, _mm512_madd_epi16(x, w)); }
};

// How quantised values are stored for MaddStep and VnniStep.
struct MaddLanes : Avx512Lanes {
  static constexpr size_t kQuantizedBytes = 2;
  static void store_quantized(std::byte* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a)));
  }
};
struct VnniLanes : Avx512Lanes {
  static constexpr size_t kQuantizedBytes = 1;
  static void store_quantized(std::byte* p, F a, F b, F c, F d) {
    _mm512_storeu_si512(p, _mm512_xor_si512(to_bytes(a, b, c, d), _mm512_set1_epi8(-128)));
  }
  static void store_quantized(std::byte* p, F a) {
    const __m128i q = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_xor_si128(q, _mm_set1_epi8(-128)));
  }
};

}  // namespace
}  // namespace exeunt::kernel
