// SPDX-License-Identifier: Apache-2.0
// Numbers in text, whatever the locale.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace exeunt {

// The whole text as one finite number: no blanks, no '+', nothing behind it; of unsigned types no '-'. `base` is for
// whole numbers.
template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view text, [[maybe_unused]] int base = 10) noexcept {
  Number value = 0;
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::integral<Number>) {
    read = std::from_chars(text.data(), end, value, base);
  } else {
    read = std::from_chars(text.data(), end, value);
    if (!std::isfinite(value)) return std::nullopt;
  }
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

// The shortest decimal that rounds to this float, as a double: 0.3 for 0.3F, not 0.30000001192092896.
[[nodiscard]] inline double short_double(float value) noexcept {
  if (!std::isfinite(value)) return static_cast<double>(value);
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double out = 0;
  std::from_chars(text, written.ptr, out);
  return out;
}

}  // namespace exeunt
