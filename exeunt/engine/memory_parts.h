// SPDX-License-Identifier: Apache-2.0
// Divides one region of memory into aligned parts. Without a region it only adds up their sizes, so that the same code
// says first how large a region must be and then where its parts lie.
#pragma once

#include <cstddef>
#include <limits>

#include "exeunt/base/error.h"

namespace exeunt {

class MemoryParts {
 public:
  explicit MemoryParts(size_t alignment, std::byte* base = nullptr) : alignment_(alignment), base_(base) {}

  // The offset of the next part. Throws Error (resources) if the parts exceed the address space.
  size_t add(size_t count, size_t element_size = 1) {
    constexpr size_t kLargest = std::numeric_limits<size_t>::max() / 2;
    const size_t place = size_, left = kLargest - alignment_ - place;
    if (place > kLargest - alignment_ || (element_size != 0 && count > left / element_size)) {
      throw Error(Code::resources, "model: no memory: its sizes exceed what can be addressed",
                  "use a smaller model or fewer threads");
    }
    size_ = place + (count * element_size + alignment_ - 1) / alignment_ * alignment_;
    return place;
  }
  // The next part, an array of `count`; null without a region.
  template <class T>
  [[nodiscard]] T* take(size_t count) {
    const size_t place = add(count, sizeof(T));
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + place);
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  size_t alignment_;
  std::byte* base_;
  size_t size_ = 0;
};

}  // namespace exeunt
