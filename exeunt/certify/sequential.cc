// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/sequential.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// The share of the level for bets that begin at `time`: it falls like 1 / (t ln² t), slowly, beyond the first kEarly
// losses, and all of them add up to less than 1 (the integral of the first factor is 1, its first term 1 / (kEarly e)).
double share_of_start(int64_t time) {
  constexpr double kEarly = 1000;
  const double t = static_cast<double>(time) / kEarly + std::numbers::e;
  const double log_t = std::log(t);
  return 1 / (kEarly * t * log_t * log_t) / (1 + 1 / (kEarly * std::numbers::e));
}

double log_beta(double a, double b) {
  return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
}

}  // namespace

RiskAlarm::RiskAlarm(double max_drop, double alpha) : max_drop_(max_drop), alpha_(alpha) {
  check(max_drop > 0 && max_drop < 1 && alpha > 0 && alpha < 1, "a budget and a level between 0 and 1");
  for (size_t i = 0; i < kMultiples.size(); ++i) {
    const double mean = std::min(kMultiples[i] * max_drop, (1 + max_drop) / 2);
    stakes_[i] = (mean - max_drop) / (max_drop * (1 - max_drop));  // for losses of 0 and 1 the likelihood ratio
  }
}

void RiskAlarm::record(double loss) {
  check(loss >= 0 && loss <= 1, "a loss between 0 and 1");
  const double share = share_of_start(time_++) / static_cast<double>(stakes_.size());
  for (size_t i = 0; i < stakes_.size(); ++i) {
    // Beyond the alarm only its having been raised counts; the bound keeps the product finite.
    wealth_[i] = std::min((wealth_[i] + share) * (1 + stakes_[i] * (loss - max_drop_)), 1e100);
  }
  raised_ = raised_ || evidence() >= 1 / alpha_;
}

double RiskAlarm::evidence() const noexcept {
  return std::accumulate(wealth_.begin(), wealth_.end(), 0.0);
}

// For losses x in [0, 1] with mean m, (q/m)^x ((1-q)/(1-m))^(1-x) is at most x q/m + (1-x) (1-q)/(1-m), which has mean
// 1. Its product over the stream, averaged over q drawn from Beta(1/2, 1/2), therefore exceeds 1 / delta at any time
// with probability at most delta; means m for which it does are ruled out.
double anytime_upper_bound(double sum, int64_t count, double delta) {
  check(sum >= 0 && sum <= static_cast<double>(count) && delta > 0 && delta < 1, "losses between 0 and 1");
  const double rest = static_cast<double>(count) - sum;
  const double mixture = log_beta(0.5 + sum, 0.5 + rest) - log_beta(0.5, 0.5);
  const auto ruled_out = [&](double mean) {
    return mixture - sum * std::log(mean) - rest * std::log1p(-mean) > -std::log(delta);
  };
  double low = count == 0 ? 0 : sum / static_cast<double>(count), high = 1;
  for (int i = 0; i < 60 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (middle < 1 && !ruled_out(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace exeunt
