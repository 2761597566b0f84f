// SPDX-License-Identifier: Apache-2.0
// Small things done to text by its ASCII characters, whatever the locale; all other bytes stay as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

[[nodiscard]] inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

[[nodiscard]] constexpr bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether there are only lower-case hexadecimal digits.
[[nodiscard]] inline bool is_hex(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Without blanks at its ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n\f\v") noexcept {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Nothing but white space. A pair is blank if both texts are.
[[nodiscard]] inline bool is_blank(std::string_view text, std::optional<std::string_view> pair = {}) noexcept {
  return trimmed(text).empty() && (!pair || trimmed(*pair).empty());
}

// The parts between the marks: one more than there are marks, and they may be empty.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (size_t from = 0;;) {
    const size_t to = text.find(mark, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

}  // namespace exeunt
