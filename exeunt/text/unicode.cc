// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace exeunt::unicode {
namespace {

#include "exeunt/text/unicode_tables.inc"

uint16_t properties(char32_t c) noexcept {
  if (c >= kPropertyLimit) return kPropertyRecords[0];
  const unsigned block = kPropertyBlocks[c >> kPropertyShift];
  return kPropertyRecords[kPropertyValues[(block << kPropertyShift) | (c & ((1U << kPropertyShift) - 1))]];
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
  if (c >= kLowerLimit) return {c, 0};
  const unsigned block = kLowerBlocks[c >> kLowerShift];
  const int32_t delta = kLowerDeltas[kLowerValues[(block << kLowerShift) | (c & ((1U << kLowerShift) - 1))]];
  return {static_cast<char32_t>(static_cast<int32_t>(c) + delta), 0};
}

std::u32string_view decomposition(char32_t c, bool compatibility) noexcept {
  if (c >= kDecompositionLimit) return {};
  const unsigned block = kDecompositionBlocks[c >> kDecompositionShift];
  const unsigned entry = kDecompositionValues[(block << kDecompositionShift) | (c & ((1U << kDecompositionShift) - 1))];
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

std::string_view oracle_version() noexcept {
  return kOracleVersion;
}

}  // namespace exeunt::unicode
