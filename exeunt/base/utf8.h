// SPDX-License-Identifier: Apache-2.0
// UTF-8 in and out. Invalid input is detected, or replaced as Unicode recommends (one U+FFFD per maximal subpart).
#pragma once

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

void append_utf8(std::string& out, char32_t code_point);

// Byte offset of the first byte that is not part of valid UTF-8.
[[nodiscard]] std::optional<size_t> find_invalid_utf8(std::string_view text) noexcept;

// `text` with each invalid part replaced by U+FFFD.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

}  // namespace exeunt
