// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers at any place of a file.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace exeunt {

// The value at `offset`; the caller has checked that it lies inside.
template <class T>
[[nodiscard]] T load_at(std::span<const std::byte> bytes, size_t offset) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace exeunt
