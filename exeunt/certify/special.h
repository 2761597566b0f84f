// SPDX-License-Identifier: Apache-2.0
// The special functions behind the risk bounds.
#pragma once

#include <cstdint>

namespace exeunt {

// The regularised incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1. Good to a relative 1e-9
// or so up to a + b of a million, 1e-7 up to ten million.
[[nodiscard]] double incomplete_beta(double a, double b, double x);

// P(X <= k) of a binomial X of n trials with success probability p: how likely so few losses are.
[[nodiscard]] double binomial_cdf(int64_t k, int64_t n, double p);

}  // namespace exeunt
