// SPDX-License-Identifier: Apache-2.0
// Vectors of four floats for the templates over Lanes (generic.cc explains them), by the instructions every aarch64
// processor has. In an anonymous namespace: each source compiles its own, for its own processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <arm_neon.h>

namespace exeunt::kernel {
namespace {

struct Lanes {
  static constexpr int kWidth = 4;
  using F = float32x4_t;

  static F set(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  // The first n < kWidth values, and zeros.
  static F load_part(const float* p, int n) {
    float values[kWidth] = {};
    std::memcpy(values, p, static_cast<size_t>(n) * sizeof(float));
    return load(values);
  }
  static void store_part(float* p, F x, int n) {
    float values[kWidth];
    store(values, x);
    std::memcpy(p, values, static_cast<size_t>(n) * sizeof(float));
  }
  static F first(F x, int n) {
    constexpr int32_t places[] = {0, 1, 2, 3};
    const uint32x4_t kept = vcltq_s32(vld1q_s32(places), vdupq_n_s32(n));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), kept));
  }

  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F max(F a, F b) { return vmaxq_f32(a, b); }
  static F min(F a, F b) { return vminq_f32(a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F round(F a) { return vrndnq_f32(a); }
  // a · 2^n for whole n between −126 and 127.
  static F times_power_of_two(F a, F n) {
    const int32x4_t bits = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(bits));
  }

  // c[0] + c[1] x + …, four coefficients at a time as the lanes of one register. With Horner's rule each step would
  // first copy its coefficient, because fmla overwrites its accumulator, and a copy costs as much as a product.
  template <size_t n>
  static inline __attribute__((always_inline)) F polynomial(const float (&c)[n], F x) {
    const F x2 = vmulq_f32(x, x);
    const F powers[] = {x, x2, vmulq_f32(x2, x), vmulq_f32(x2, x2)};
    return group<0>(c, powers);
  }
  // c[at] + (c[at + 1] x + … + c[at + 4] x⁴) + x⁴ (the groups behind), where only the first group has its c[at].
  template <size_t at, size_t n>
  static inline __attribute__((always_inline)) F group(const float (&c)[n], const F (&x)[4]) {
    constexpr size_t count = n - 1 - at < 4 ? n - 1 - at : 4;
    float lanes[4] = {};
    for (size_t i = 0; i < count; ++i) lanes[i] = c[at + 1 + i];
    const F by = vld1q_f32(lanes);
    F sum = at == 0 ? vfmaq_laneq_f32(vdupq_n_f32(c[0]), x[0], by, 0) : vmulq_laneq_f32(x[0], by, 0);
    if constexpr (count > 1) sum = vfmaq_laneq_f32(sum, x[1], by, 1);
    if constexpr (count > 2) sum = vfmaq_laneq_f32(sum, x[2], by, 2);
    if constexpr (count > 3) sum = vfmaq_laneq_f32(sum, x[3], by, 3);
    if constexpr (at + 5 < n) sum = vfmaq_f32(sum, group<at + 4>(c, x), x[3]);
    return sum;
  }

  static void transpose(F (&x)[kWidth]) {
    const float32x4_t ab[] = {vtrn1q_f32(x[0], x[1]), vtrn2q_f32(x[0], x[1])},
                      cd[] = {vtrn1q_f32(x[2], x[3]), vtrn2q_f32(x[2], x[3])};
    for (int i = 0; i < 2; ++i) {
      const float64x2_t left = vreinterpretq_f64_f32(ab[i]), right = vreinterpretq_f64_f32(cd[i]);
      x[i] = vreinterpretq_f32_f64(vtrn1q_f64(left, right));
      x[i + 2] = vreinterpretq_f32_f64(vtrn2q_f64(left, right));
    }
  }

  static float sum(F a) { return vaddvq_f32(a); }
  static float largest(F a) { return vmaxvq_f32(a); }
};

}  // namespace
}  // namespace exeunt::kernel
