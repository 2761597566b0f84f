// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/special.h"

// The guard of a header that sums in another order on x86-64: without it, both architectures give the same bits.
#define BOOST_MATH_SPECIAL_FUNCTIONS_LANCZOS_SSE2
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// Boost would compute in long double, which is not the same type on x86-64 and aarch64.
constexpr boost::math::policies::policy<boost::math::policies::promote_double<false>> kInDouble;

}  // namespace

double binomial_cdf(int64_t k, int64_t n, double p) {
  check(n >= 0 && p >= 0 && p <= 1, "a binomial has n >= 0 and p in [0, 1]");
  if (k < 0) return 0;
  if (k >= n) return 1;
  return boost::math::ibetac(static_cast<double>(k) + 1, static_cast<double>(n - k), p, kInDouble);
}

double chi_square_tail(double x, int degrees) {
  check(degrees > 0, "a chi-square variable has degrees of freedom");
  if (!(x > 0)) return 1;
  return boost::math::gamma_q(degrees / 2.0, x / 2, kInDouble);
}

}  // namespace exeunt
