// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/special.h"

#include <cmath>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// std::lgamma writes a global sign; this form does not, so that threads do not meet.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// The continued fraction of I_x(a, b) by Lentz's method (DLMF 8.17.22); it converges quickly where
// x < (a + 1) / (a + b + 2), in about sqrt(max(a, b)) steps.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecision = 1e-15;
  constexpr int kMaxSteps = 200'000;
  const auto nonzero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= kMaxSteps; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    fraction *= c * d;
    if (std::abs(c * d - 1) < kPrecision) return fraction;
  }
  return fraction;
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  check(a > 0 && b > 0 && x >= 0 && x <= 1, "the incomplete beta function has a, b > 0 and x in [0, 1]");
  if (x == 0 || x == 1) return x;
  const double log_front = a * std::log(x) + b * std::log1p(-x) + log_gamma(a + b) - log_gamma(a) - log_gamma(b);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * beta_fraction(a, b, x) / a;
  return 1 - std::exp(log_front) * beta_fraction(b, a, 1 - x) / b;
}

double binomial_cdf(int64_t k, int64_t n, double p) {
  check(n >= 0 && p >= 0 && p <= 1, "a binomial has n >= 0 and p in [0, 1]");
  if (k < 0) return 0;
  if (k >= n) return 1;
  return incomplete_beta(static_cast<double>(n - k), static_cast<double>(k) + 1, 1 - p);
}

}  // namespace exeunt
