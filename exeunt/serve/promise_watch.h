// SPDX-License-Identifier: Apache-2.0
// Watches one policy in production: do texts drawn from the traffic still lose as little against the reference as was
// certified? Test and bound hold however often one looks at them (certify/risk.h).
#pragma once

#include <cstdint>
#include <optional>

#include "exeunt/certify/risk.h"

namespace exeunt::serve {

class PromiseWatch {
 public:
  static constexpr double kFalseAlarm = 0.001;  // the chance of ever raising one, while the promise is kept
  static constexpr double kConfidence = 0.95;   // of the bound

  // `max_drop`: the certified mean loss. Without one there is nothing to alarm about, and only the bound is kept.
  explicit PromiseWatch(std::optional<double> max_drop) : max_drop_(max_drop) {
    if (max_drop) test_.emplace(*max_drop, kFalseAlarm);
  }

  // A drawn text was compared. `loss`: 1 if the labels differ, 0 if they agree; for regression, |difference| over the
  // range, at most 1.
  void record(double loss) {
    if (test_) test_->record(loss);
    ++texts_;
    disagreements_ += loss > 0 ? 1 : 0;
    losses_ += loss;
  }
  // A drawn text was dropped. What it lost is not known, so the bound takes it for lost, and nothing is covered until
  // the server has caught up: texts that come at such times may differ from the others.
  void drop() noexcept {
    ++dropped_;
    covered_ = false;
  }
  void mark_covered() noexcept { covered_ = true; }

  [[nodiscard]] std::optional<double> max_drop() const noexcept { return max_drop_; }
  [[nodiscard]] uint64_t texts() const noexcept { return texts_; }  // compared
  [[nodiscard]] uint64_t disagreements() const noexcept { return disagreements_; }
  [[nodiscard]] uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] double losses() const noexcept { return losses_; }  // their sum
  [[nodiscard]] bool covered() const noexcept { return covered_; }

  // The mean loss of all texts answered since the start lies below this with confidence kConfidence.
  [[nodiscard]] double upper_bound() const {
    return anytime_upper_bound(losses_ + static_cast<double>(dropped_), static_cast<int64_t>(texts_ + dropped_),
                               1 - kConfidence);
  }
  // True from the moment at which the promise was found broken: the texts have drifted since it was certified.
  [[nodiscard]] bool alarm() const noexcept { return test_ && test_->raised(); }

 private:
  std::optional<double> max_drop_;
  std::optional<RiskAlarm> test_ = {};
  uint64_t texts_ = 0, disagreements_ = 0, dropped_ = 0;
  double losses_ = 0;
  bool covered_ = true;
};

}  // namespace exeunt::serve
