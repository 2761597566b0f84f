// SPDX-License-Identifier: Apache-2.0
// The distributions behind the risk bounds, by Boost.Math.
#pragma once

#include <cstdint>

namespace exeunt {

// P(X <= k) of a binomial X of n trials with success probability p: how likely so few losses are.
[[nodiscard]] double binomial_cdf(int64_t k, int64_t n, double p);

// P(X > x) of a chi-square variable.
[[nodiscard]] double chi_square_tail(double x, int degrees);

}  // namespace exeunt
