// SPDX-License-Identifier: Apache-2.0
// A zeroed memory region, on huge pages if possible, and its division into aligned parts. Untouched pages cost nothing.
#pragma once

#include <cstddef>
#include <string_view>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt {

class Region {
 public:
  Region() = default;
  Region(size_t bytes, std::string_view what);  // throws Error (resources) that names `what`
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Computes the size of a region: each part begins at a multiple of kKernelAlignment. Throws Error (resources) if the
// sum exceeds the address space.
class RegionPlan {
 public:
  [[nodiscard]] size_t add(size_t bytes);                       // the part's offset
  [[nodiscard]] size_t add(size_t count, size_t element_size);  // the same, for an array
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  size_t size_ = 0;
};

}  // namespace exeunt
