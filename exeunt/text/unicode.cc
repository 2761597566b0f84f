// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unicode.h"

#include <iterator>

namespace exeunt::unicode {
namespace {

#include "unicode_tables.inc"  // made from unicode_tables.json

// In the order of scripts/unicode/make_tables.js; the combining rank lies above them.
enum PropertyBit : uint16_t {
  kRemoved = 1 << 0,
  kAccent = 1 << 1,
  kPunctuation = 1 << 2,
  kChinese = 1 << 3,
  kSpace = 1 << 4,
  kWord = 1 << 5,
  kMark = 1 << 6,
  kLetter = 1 << 7,
  kNumber = 1 << 8,
};
constexpr unsigned kRankShift = 9;

// Two-stage table: equal blocks of 2^shift code points are stored once; 0 behind the last block.
template <unsigned shift>
unsigned look_up(char32_t c, const auto& blocks, const auto& values) noexcept {
  if ((c >> shift) >= std::size(blocks)) return 0;
  return values[(unsigned{blocks[c >> shift]} << shift) | (c & ((1U << shift) - 1))];
}

uint16_t properties(char32_t c) noexcept {
  return kPropertyRecords[look_up<7>(c, kPropertyBlocks, kPropertyValues)];
}

// The few code points whose canonical decomposition is not the compatibility one.
std::u32string_view canonical_only(char32_t c) noexcept {
  for (size_t at = 0; at < std::size(kCanonicalOnly); at += 2 + kCanonicalOnly[at + 1]) {
    if (kCanonicalOnly[at] == c) return {kCanonicalOnly + at + 2, kCanonicalOnly[at + 1]};
  }
  return {};
}

}  // namespace

bool is_bert_removed(char32_t c) noexcept {
  return (properties(c) & kRemoved) != 0;
}
bool is_bert_accent(char32_t c) noexcept {
  return (properties(c) & kAccent) != 0;
}
bool is_bert_punctuation(char32_t c) noexcept {
  return (properties(c) & kPunctuation) != 0;
}
bool is_chinese(char32_t c) noexcept {
  return (properties(c) & kChinese) != 0;
}
bool is_space(char32_t c) noexcept {
  return (properties(c) & kSpace) != 0;
}
bool is_word(char32_t c) noexcept {
  return (properties(c) & kWord) != 0;
}
bool is_mark(char32_t c) noexcept {
  return (properties(c) & kMark) != 0;
}
bool is_letter(char32_t c) noexcept {
  return (properties(c) & kLetter) != 0;
}
bool is_number(char32_t c) noexcept {
  return (properties(c) & kNumber) != 0;
}
uint8_t combining_rank(char32_t c) noexcept {
  return static_cast<uint8_t>(properties(c) >> kRankShift);
}

Lower lowercase(char32_t c) noexcept {
  if (c == 0x130) return {U'i', 0x307};
  const int32_t delta = kLowerDeltas[look_up<7>(c, kLowerBlocks, kLowerValues)];
  return {static_cast<char32_t>(static_cast<int32_t>(c) + delta), 0};
}

std::u32string_view decomposition(char32_t c, bool compatibility) noexcept {
  const unsigned entry = look_up<6>(c, kDecompositionBlocks, kDecompositionValues);
  if (entry == 0) return {};
  const unsigned start = kDecompositionStarts[entry - 1];
  constexpr unsigned kBoth = 0x8000;
  if (!compatibility && (start & kBoth) == 0) return canonical_only(c);
  const unsigned begin = start & ~kBoth;
  return {kDecompositions + begin, (kDecompositionStarts[entry] & ~kBoth) - begin};
}

char32_t composition(char32_t a, char32_t b) noexcept {
  size_t low = 0;
  size_t high = std::size(kCompositions) / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const char32_t* entry = kCompositions + middle * 3;
    if (entry[0] == a && entry[1] == b) return entry[2];
    if (entry[0] < a || (entry[0] == a && entry[1] < b)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return 0;
}

}  // namespace exeunt::unicode
