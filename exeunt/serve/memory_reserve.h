// SPDX-License-Identifier: Apache-2.0
// Memory set aside for the moment when there is no more. The allocation that fails first gets it, so that what runs can
// end in good order (much of it, such as taking a JSON value apart, allocates where nothing may fail). From then on
// requests are refused until as much could be set aside again.
#pragma once

#include <cstddef>

namespace exeunt::serve {

// One at a time in a process: it is what operator new turns to.
class MemoryReserve {
 public:
  explicit MemoryReserve(size_t bytes = size_t{8} << 20);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Is it there, or could it be set aside again?
  [[nodiscard]] bool whole() const noexcept;

 private:
  size_t bytes_;
};

}  // namespace exeunt::serve
