// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/promise_watch.h"

namespace exeunt::serve {

PromiseWatch::PromiseWatch(std::optional<double> epsilon) : epsilon_(epsilon) {
  if (epsilon) test_.emplace(*epsilon, kFalseAlarm);
}

void PromiseWatch::record(double loss) {
  if (test_) test_->record(loss);
  ++texts_;
  disagreements_ += loss > 0 ? 1 : 0;
  losses_ += loss;
}

void PromiseWatch::drop() noexcept {
  ++dropped_;
  covered_ = false;
}

double PromiseWatch::upper_bound() const {
  return anytime_upper_bound(losses_ + static_cast<double>(dropped_), static_cast<int64_t>(texts_ + dropped_),
                             1 - kConfidence);
}

}  // namespace exeunt::serve
