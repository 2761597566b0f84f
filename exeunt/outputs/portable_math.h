// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log and log1p with the same bits on every processor and on a GPU: the C libraries differ in their last
// digit, and a decision to leave must not. They compute in double by +, −, ·, / alone, which IEEE 754 defines (compiled
// without contraction), and round once; so they are the nearest float in all but about one of a million cases.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "exeunt/outputs/host_device.h"

namespace exeunt::portable {

EXEUNT_HOST_DEVICE inline double power_of_two(int exponent) noexcept {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

// x = k ln 2 + r with |r| ≤ ln 2 / 2, for |x| up to a few hundred.
struct ReducedExponent {
  int k;
  double r;
};
EXEUNT_HOST_DEVICE inline ReducedExponent reduce_exponent(double x) noexcept {
  constexpr double kPerOctave = 1.4426950408889634, kHigh = 0.6931471803691238, kLow = 1.9082149292705877e-10;
  const int k = static_cast<int>(x * kPerOctave + (x < 0 ? -0.5 : 0.5));
  return {k, (x - k * kHigh) - k * kLow};
}

// (e^r − 1) / r for |r| ≤ ln 2 / 2: Σ rⁿ / (n + 1)!, cut where a term is below 1e-13 of the sum.
EXEUNT_HOST_DEVICE inline double exponential_slope(double r) noexcept {
  double sum = 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  return sum * r + 1;
}

EXEUNT_HOST_DEVICE inline float exp(float x) noexcept {
  if (x != x) return x;
  if (x < -104) return 0;  // below half of the smallest float
  if (x > 89) return INFINITY;
  const ReducedExponent e = reduce_exponent(x);
  return static_cast<float>((1 + e.r * exponential_slope(e.r)) * power_of_two(e.k));
}

EXEUNT_HOST_DEVICE inline float expm1(float x) noexcept {
  if (x != x) return x;
  if (x < -104) return -1;
  if (x > 89) return INFINITY;
  const ReducedExponent e = reduce_exponent(x);
  const double small = e.r * exponential_slope(e.r);
  if (e.k == 0) return static_cast<float>(small);
  return static_cast<float>((1 + small) * power_of_two(e.k) - 1);
}

// ln u for a normal u > 0.
EXEUNT_HOST_DEVICE inline double natural_log(double u) noexcept {
  constexpr double kLn2 = 0.6931471805599453, kRootHalf = 0.7071067811865476;
  uint64_t bits;
  std::memcpy(&bits, &u, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  bits = (bits & 0x000fffffffffffffULL) | 0x3fe0000000000000ULL;  // the mantissa, in [1/2, 1)
  double m;
  std::memcpy(&m, &bits, sizeof m);
  if (m < kRootHalf) {
    m = m * 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 1.0 / 19;  // artanh's series: ln m = 2 (s + s³/3 + s⁵/5 + …)
  sum = sum * square + 1.0 / 17;
  sum = sum * square + 1.0 / 15;
  sum = sum * square + 1.0 / 13;
  sum = sum * square + 1.0 / 11;
  sum = sum * square + 1.0 / 9;
  sum = sum * square + 1.0 / 7;
  sum = sum * square + 1.0 / 5;
  sum = sum * square + 1.0 / 3;
  sum = sum * square + 1;
  return exponent * kLn2 + 2 * (s * sum);
}

EXEUNT_HOST_DEVICE inline float log(float x) noexcept {
  if (x != x || x == INFINITY) return x;
  if (x == 0) return -INFINITY;
  if (x < 0) return NAN;
  return static_cast<float>(natural_log(x));
}

// ln(1 + x) for x ≥ −1. What rounding takes from 1 + x, it takes from (1 + x) − 1, too.
EXEUNT_HOST_DEVICE inline float log1p(float x) noexcept {
  if (x != x || x == INFINITY) return x;
  if (x == -1) return -INFINITY;
  if (x < -1) return NAN;
  const double wide = x, u = 1 + wide;
  if (u == 1) return x;
  return static_cast<float>(natural_log(u) * (wide / (u - 1)));
}

}  // namespace exeunt::portable
