// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/sha256_blocks.h"

#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace exeunt {
namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* p) noexcept {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

#if defined(__x86_64__)

bool cpu_has_sha() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 29)) != 0 && __builtin_cpu_supports("sse4.1");
}

// Four rounds per step; the message schedule is computed alongside in four registers.
__attribute__((target("sha,sse4.1,ssse3"))) void blocks_fast(uint32_t* state, const uint8_t* data,
                                                             size_t count) noexcept {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));       // d c b a
  __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));  // h g f e
  low = _mm_shuffle_epi32(low, 0xB1);
  high = _mm_shuffle_epi32(high, 0x1B);
  __m128i abef = _mm_alignr_epi8(low, high, 8);
  __m128i cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; ++i) {
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), swap);
    }
    for (int step = 0; step < 16; ++step) {
      __m128i& current = words[step & 3];
      if (step >= 4) {
        const __m128i previous = words[(step + 3) & 3];
        current = _mm_sha256msg1_epu32(current, words[(step + 1) & 3]);
        current = _mm_add_epi32(current, _mm_alignr_epi8(previous, words[(step + 2) & 3], 4));
        current = _mm_sha256msg2_epu32(current, previous);
      }
      const __m128i keyed = _mm_add_epi32(current, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound) + step));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

// Clang before 16 declares these instructions only to files compiled for processors that all have them.
#elif defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16)

bool cpu_has_sha() noexcept {
  return (getauxval(AT_HWCAP) & (1UL << 6)) != 0;
}

__attribute__((target("+crypto"))) void blocks_fast(uint32_t* state, const uint8_t* data, size_t count) noexcept {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; count > 0; --count, data += 64) {
    const uint32x4_t abcd_before = abcd, efgh_before = efgh;
    uint32x4_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
    for (int step = 0; step < 16; ++step) {
      uint32x4_t& current = words[step & 3];
      if (step >= 4) {
        current = vsha256su0q_u32(current, words[(step + 1) & 3]);
        current = vsha256su1q_u32(current, words[(step + 2) & 3], words[(step + 3) & 3]);
      }
      const uint32x4_t keyed = vaddq_u32(current, vld1q_u32(kRound + 4 * step));
      const uint32x4_t abcd_old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, keyed);
      efgh = vsha256h2q_u32(efgh, abcd_old, keyed);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}

#else

bool cpu_has_sha() noexcept {
  return false;
}
void blocks_fast(uint32_t* state, const uint8_t* data, size_t count) noexcept {
  sha256_blocks_plain(state, data, count);
}

#endif

}  // namespace

void sha256_blocks_plain(uint32_t* state, const uint8_t* data, size_t count) noexcept {
  for (; count > 0; --count, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = big_endian(data + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

void sha256_blocks(uint32_t* state, const uint8_t* data, size_t count) noexcept {
  static const bool fast = cpu_has_sha();
  fast ? blocks_fast(state, data, count) : sha256_blocks_plain(state, data, count);
}

}  // namespace exeunt
