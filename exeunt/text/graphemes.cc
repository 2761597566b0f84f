// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/graphemes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "exeunt/base/utf8.h"

namespace exeunt {
namespace {

enum Break : uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  extend_apart,  // Extend that ends a conjunct
  linker,        // Extend that joins consonants: virama
  zwj,
  spacing_mark,
  prepend,
  pictographic,
  consonant,
  hangul_l,
  hangul_v,
  hangul_t,
  hangul_lv,
  hangul_lvt,
};

struct Range {
  uint32_t begin, end;  // both included
  Break kind;
};

#include "grapheme_ranges.inc"  // made from grapheme_ranges.json

Break break_of(char32_t c) noexcept {
  if (c >= 0x20 && c < 0x7F) return other;
  if (c >= 0xAC00 && c <= 0xD7A3) return (c - 0xAC00) % 28 == 0 ? hangul_lv : hangul_lvt;
  const auto* range = std::upper_bound(std::begin(kRanges), std::end(kRanges), c,
                                       [](char32_t value, const Range& r) { return value < r.begin; });
  if (range == std::begin(kRanges)) return other;
  --range;
  return c <= range->end ? range->kind : other;
}

bool is_extend(Break kind) noexcept {
  return kind == extend || kind == extend_apart || kind == linker;
}

bool hangul_joins(Break left, Break right) noexcept {
  switch (left) {
    case hangul_l:
      return right == hangul_l || right == hangul_v || right == hangul_lv || right == hangul_lvt;
    case hangul_v:
    case hangul_lv:
      return right == hangul_v || right == hangul_t;
    case hangul_t:
    case hangul_lvt:
      return right == hangul_t;
    default:
      return false;
  }
}

// The state of the cluster, as far as rules GB9c and GB11 look back.
struct Memory {
  bool emoji = false;      // a pictograph and Extend only
  bool emoji_zwj = false;  // the same and then ZWJ
  bool conjunct = false;   // a consonant and marks of conjuncts only
  bool linked = false;     // the same with a virama among them

  void see(Break kind) noexcept {
    emoji_zwj = emoji && kind == zwj;
    emoji = kind == pictographic || (emoji && is_extend(kind));
    linked = conjunct && (kind == linker || (linked && (kind == extend || kind == zwj)));
    conjunct = kind == consonant || (conjunct && (kind == extend || kind == linker || kind == zwj));
  }
};

bool joins(Break left, Break right, const Memory& memory) noexcept {
  if (left == cr) return right == lf;                                                           // GB3, GB4
  if (left == lf || left == control) return false;                                              // GB4
  if (right == cr || right == lf || right == control) return false;                             // GB5
  if (is_extend(right) || right == zwj || right == spacing_mark) return true;                   // GB9, GB9a
  if (left == prepend || hangul_joins(left, right)) return true;                                // GB9b, GB6 to GB8
  return (right == consonant && memory.linked) || (right == pictographic && memory.emoji_zwj);  // GB9c, GB11
}

}  // namespace

size_t grapheme_bytes(std::string_view text) noexcept {
  // There is a break between any two ASCII characters except CR LF.
  if (static_cast<uint8_t>(text[0]) < 0x80 && text[0] != '\r' &&
      (text.size() == 1 || static_cast<uint8_t>(text[1]) < 0x80)) {
    return 1;
  }
  Decoded c = decode_utf8(text);
  size_t at = c.bytes;
  Break left = break_of(c.code_point);
  Memory memory;
  for (memory.see(left); at < text.size(); at += c.bytes) {
    c = decode_utf8(text.substr(at));
    const Break right = break_of(c.code_point);
    if (!joins(left, right, memory)) break;
    memory.see(right);
    left = right;
  }
  return at;
}

}  // namespace exeunt
