// SPDX-License-Identifier: Apache-2.0
// Checked arithmetic on sizes read from files: overflow is a return value. The readers compute all sizes with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace exeunt {

[[nodiscard]] inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) noexcept {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) noexcept {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Number of elements of a shape; nothing if a dimension is negative or the product overflows.
[[nodiscard]] inline std::optional<uint64_t> checked_elements(std::span<const int64_t> shape) noexcept {
  uint64_t elements = 1;
  for (const int64_t side : shape) {
    if (side < 0) return std::nullopt;
    const auto next = checked_mul(elements, static_cast<uint64_t>(side));
    if (!next) return std::nullopt;
    elements = *next;
  }
  return elements;
}

// True if [offset, offset + size) is inside [0, total).
[[nodiscard]] inline bool range_fits(uint64_t offset, uint64_t size, uint64_t total) noexcept {
  return offset <= total && size <= total - offset;
}

}  // namespace exeunt
