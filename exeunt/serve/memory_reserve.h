// SPDX-License-Identifier: Apache-2.0
// Emergency memory. The first allocation that fails gets it, so that running work can finish (much of it, such as
// destroying a JSON value, allocates where nothing may throw). Then requests are refused until it is reserved again.
#pragma once

#include <cstddef>

namespace exeunt::serve {

// One per process: it installs the new-handler.
class MemoryReserve {
 public:
  explicit MemoryReserve(size_t bytes = size_t{8} << 20);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Is it reserved, or could it be reserved again?
  [[nodiscard]] bool whole() const noexcept;

 private:
  size_t bytes_;
};

}  // namespace exeunt::serve
