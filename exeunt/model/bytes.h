// SPDX-License-Identifier: Apache-2.0
// Reads from a file's bytes: little-endian numbers at any offset, and text for error messages.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/base/utf8.h"

namespace exeunt {

// The value at `offset`, which the caller has checked.
template <class T>
[[nodiscard]] T load_at(std::span<const std::byte> bytes, size_t offset) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Text of a file for an error message: one short line, whatever the file contains.
[[nodiscard]] inline std::string printable(std::string_view text, size_t limit = 80) {
  std::string out = replace_invalid_utf8(text.substr(0, limit));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() > limit ? out + "…" : out;
}

}  // namespace exeunt
