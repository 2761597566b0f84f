// SPDX-License-Identifier: Apache-2.0
// Adds up the parts of a region of memory, each aligned as kernels and copy engines want it.
#pragma once

#include <cstddef>

namespace exeunt::cuda {

class Plan {
 public:
  // Where the part lies.
  size_t add(size_t bytes) {
    constexpr size_t kAlignment = 256;
    const size_t place = size_;
    size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  size_t size_ = 0;
};

[[nodiscard]] constexpr size_t count(int n) noexcept {
  return static_cast<size_t>(n);
}

}  // namespace exeunt::cuda
