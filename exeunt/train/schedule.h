// SPDX-License-Identifier: Apache-2.0
// The learning rate over the steps of a stage: linear warm-up from 0, then linear decay to 0. No torch here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace exeunt {

struct Schedule {
  int64_t steps = 1;  // T
  double warmup = 0;  // W, in steps; may be a fraction

  // What the rate of step k (from 0) is multiplied by: k / W below W, then (T − k) / (T − W).
  [[nodiscard]] double at(int64_t step) const noexcept {
    const auto k = static_cast<double>(step), total = static_cast<double>(steps);
    if (k < warmup) return k / std::max(1.0, warmup);
    return std::max(0.0, (total - k) / std::max(1.0, total - warmup));
  }
};

}  // namespace exeunt
