// SPDX-License-Identifier: Apache-2.0
// A range of the original text after normalisation, and where each part of it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/tokenizer.h"

namespace exeunt {

// UTF-8 text in which every byte maps to code points of the original. While the text is ASCII and nothing was added or
// removed ("plain"), the mapping is arithmetic and costs nothing.
class NormalizedText {
 public:
  // An empty text to append to; `first` is where its range begins in the original, in code points.
  explicit NormalizedText(uint32_t first = 0) : first_(first) {}
  // A range of the original; `text` must be valid UTF-8.
  NormalizedText(std::string_view text, uint32_t first);

  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] size_t size() const noexcept { return text_.size(); }
  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }
  [[nodiscard]] uint32_t first() const noexcept { return first_; }
  [[nodiscard]] bool plain() const noexcept { return from_.empty(); }

  // The origin of bytes [begin, end), from the start of the first to the end of the last; begin < end.
  [[nodiscard]] Offset origin(size_t begin, size_t end) const noexcept {
    if (plain()) return {first_ + static_cast<uint32_t>(begin), first_ + static_cast<uint32_t>(end)};
    return {from_[begin].first, from_[end - 1].second};
  }
  [[nodiscard]] Offset origin(size_t byte) const noexcept { return origin(byte, byte + 1); }

  // Appends text with the given origin. A text built by append is never plain unless it is empty.
  void append(char32_t code_point, Offset origin);
  void append(std::string_view utf8, Offset origin);
  void append(const NormalizedText& other, size_t begin, size_t end);  // bytes [begin, end) of `other`
  void reserve(size_t bytes);

  // The bytes themselves, for changes that keep every code point in its place and length.
  [[nodiscard]] char* data() noexcept { return text_.data(); }

 private:
  std::string text_;
  std::vector<Offset> from_;  // per byte of text_; empty while plain
  uint32_t first_ = 0;
};

// True if every byte is ASCII.
[[nodiscard]] bool is_ascii(std::string_view text) noexcept;

// Number of code points of valid UTF-8.
[[nodiscard]] size_t count_code_points(std::string_view text) noexcept;

}  // namespace exeunt
