// SPDX-License-Identifier: Apache-2.0
// Watches a certified policy in production: some texts also run to full depth, and what differs is held against what
// was promised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace exeunt::serve {

class PromiseWatch {
 public:
  // `epsilon`: the largest mean loss that was promised; none = only count.
  explicit PromiseWatch(std::optional<double> epsilon, size_t window = 5000) : epsilon_(epsilon), window_(window) {}

  // `loss`: 1 where the labels differ, 0 where they agree; |difference| over the range for a regression.
  void record(double loss);

  [[nodiscard]] uint64_t texts() const noexcept { return texts_; }
  [[nodiscard]] uint64_t disagreements() const noexcept { return disagreements_; }
  [[nodiscard]] double agreement() const noexcept;  // 1 - mean loss over the window

  // True where a mean loss of `epsilon` would show so much loss in the window with probability below 1 in 1000: then
  // texts have changed since the policy was certified. Few texts never raise it by chance alone.
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
