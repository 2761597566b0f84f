// SPDX-License-Identifier: Apache-2.0
// A zeroed memory region, on huge pages if possible. Untouched pages cost nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace exeunt {

class Region {
 public:
  Region() = default;
  Region(size_t bytes, std::string_view what);  // throws Error (resources) that names `what`

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] size_t size() const noexcept { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace exeunt
