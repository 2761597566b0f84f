// SPDX-License-Identifier: Apache-2.0
// A zeroed memory region, on huge pages if possible. Untouched pages cost nothing.
#pragma once

#include <cstddef>
#include <string_view>

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

}  // namespace exeunt
