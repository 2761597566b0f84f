// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/normalized_text.h"

#include <algorithm>
#include <cstring>

#include "exeunt/base/utf8.h"

namespace exeunt {

NormalizedText::NormalizedText(std::string_view text, uint32_t first) : text_(text), first_(first) {
  if (is_ascii(text)) return;
  from_.reserve(text.size());
  uint32_t position = first;
  for (size_t at = 0; at < text.size(); ++position) {
    const size_t bytes = decode_utf8(text.substr(at)).bytes;
    from_.insert(from_.end(), bytes, Offset{position, position + 1});
    at += bytes;
  }
}

void NormalizedText::append(char32_t code_point, Offset origin) {
  append_utf8(text_, code_point);
  from_.resize(text_.size(), origin);
}

void NormalizedText::append(std::string_view utf8, Offset origin) {
  text_.append(utf8);
  from_.resize(text_.size(), origin);
}

void NormalizedText::append(const NormalizedText& other, size_t begin, size_t end) {
  text_.append(other.text_, begin, end - begin);
  if (!other.plain()) {
    from_.insert(from_.end(), other.from_.begin() + static_cast<ptrdiff_t>(begin),
                 other.from_.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (size_t i = begin; i < end; ++i) from_.push_back(other.origin(i));
}

void NormalizedText::reserve(size_t bytes) {
  text_.reserve(bytes);
  from_.reserve(bytes);
}

bool is_ascii(std::string_view text) noexcept {
  constexpr uint64_t kHighBits = 0x8080808080808080U;
  size_t at = 0;
  uint64_t seen = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    seen |= word;
  }
  for (; at < text.size(); ++at) seen |= static_cast<uint8_t>(text[at]);
  return (seen & kHighBits) == 0;
}

size_t count_code_points(std::string_view text) noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace exeunt
