// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/promise_watch.h"

#include <cmath>

#include "exeunt/exits/special.h"

namespace exeunt::serve {
namespace {

constexpr double kAlarmLevel = 0.001;

}  // namespace

void PromiseWatch::record(double loss) {
  ++texts_;
  disagreements_ += loss > 0 ? 1 : 0;
  fractional_ = fractional_ || (loss > 0 && loss < 1);
  recent_.push_back(static_cast<float>(loss));
  sum_ += recent_.back();
  if (recent_.size() > window_) {
    sum_ -= recent_.front();
    recent_.pop_front();
  }
}

double PromiseWatch::agreement() const noexcept {
  return recent_.empty() ? 1 : 1 - sum_ / static_cast<double>(recent_.size());
}

bool PromiseWatch::alarm() const {
  if (!epsilon_ || recent_.empty()) return false;
  const auto n = static_cast<int64_t>(recent_.size());
  const double mean = sum_ / static_cast<double>(n);
  if (mean <= *epsilon_) return false;
  if (fractional_) {  // Hoeffding: P(mean - epsilon >= t) <= exp(-2 n t²)
    const double excess = mean - *epsilon_;
    return std::exp(-2 * static_cast<double>(n) * excess * excess) < kAlarmLevel;
  }
  return 1 - binomial_cdf(std::llround(sum_) - 1, n, *epsilon_) < kAlarmLevel;
}

}  // namespace exeunt::serve
