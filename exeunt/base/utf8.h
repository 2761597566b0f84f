// SPDX-License-Identifier: Apache-2.0
// UTF-8 in and out. Invalid input is detected, or replaced as Unicode recommends (one U+FFFD per maximal subpart).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exeunt {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code_point;  // kReplacement if `valid` is false
  uint8_t bytes;        // taken from the input, at least 1
  bool valid;
};

// The code point at the start of `text`, which must not be empty.
[[nodiscard]] Decoded decode_utf8(std::string_view text) noexcept;

// Bytes of the code point at the start of `text`, which is not empty, by its first byte alone.
[[nodiscard]] inline size_t code_point_bytes(std::string_view text) noexcept {
  const auto lead = static_cast<uint8_t>(text.front());
  return std::min<size_t>(lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4, text.size());
}

// Where the last code point of `text`, which is not empty and valid UTF-8, begins.
[[nodiscard]] inline size_t last_code_point(std::string_view text) noexcept {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

void append_utf8(std::string& out, char32_t code_point);

// Byte offset of the first byte that is not part of valid UTF-8.
[[nodiscard]] std::optional<size_t> find_invalid_utf8(std::string_view text) noexcept;

// `text` with each invalid part replaced by U+FFFD.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

constexpr bool is_control(char32_t c) noexcept {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}
// For a terminal: control characters but newlines and tabs are replaced, too. A file could steer the terminal by them.
[[nodiscard]] std::string terminal_text(std::string_view text);
[[nodiscard]] std::string terminal_line(std::string_view text);  // without newlines and tabs either

}  // namespace exeunt
