// SPDX-License-Identifier: Apache-2.0
// Monitors a certified policy in production: compares its loss against full depth on sampled texts with the certified
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace exeunt::serve {

class PromiseWatch {
 public:
  // `epsilon`: the certified mean loss; none = only count.
  explicit PromiseWatch(std::optional<double> epsilon, size_t window = 5000) : epsilon_(epsilon), window_(window) {}

  // `loss`: 1 if the labels differ, 0 if they agree; for regression, |difference| over the range.
  void record(double loss);

  [[nodiscard]] uint64_t texts() const noexcept { return texts_; }
  [[nodiscard]] uint64_t disagreements() const noexcept { return disagreements_; }
  [[nodiscard]] double agreement() const noexcept;  // 1 - mean loss over the window

  // True if a mean loss of `epsilon` would give as much loss in the window with probability below 1 in 1000: the texts
  // have drifted since the policy was certified.
  [[nodiscard]] bool alarm() const;

 private:
  std::optional<double> epsilon_;
  size_t window_;
  std::deque<float> recent_ = {};
  double sum_ = 0;
  bool fractional_ = false;
  uint64_t texts_ = 0, disagreements_ = 0;
};

}  // namespace exeunt::serve
