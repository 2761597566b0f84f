// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/byte_level.h"

#include <array>

#include "exeunt/base/utf8.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

constexpr size_t kMovedEnd = 0x144;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kMovedEnd> byte{};

  constexpr Alphabet() {
    byte.fill(-1);
    char32_t moved = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = itself ? b : moved++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

enum class CharKind : uint8_t { space, letter, number, other };

constexpr std::array<CharKind, 128> kAscii = [] {
  std::array<CharKind, 128> kinds{};
  for (size_t c = 0; c < kinds.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[c] = letter                 ? CharKind::letter
               : c >= '0' && c <= '9' ? CharKind::number
               : space                ? CharKind::space
                                      : CharKind::other;
  }
  return kinds;
}();

struct Seen {
  CharKind kind;
  uint8_t bytes;
};

Seen look(std::string_view text, size_t at) noexcept {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {kAscii[byte], 1};
  const Decoded c = decode_utf8(text.substr(at));
  if (unicode::is_letter(c.code_point)) return {CharKind::letter, c.bytes};
  if (unicode::is_number(c.code_point)) return {CharKind::number, c.bytes};
  return {unicode::is_space(c.code_point) ? CharKind::space : CharKind::other, c.bytes};
}

size_t run_end(std::string_view text, size_t at, CharKind kind) noexcept {
  while (at < text.size()) {
    const Seen next = look(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd at `at`, or 0.
size_t contraction(std::string_view text, size_t at) noexcept {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = at + 2 < text.size() ? text[at + 2] : '\0';
  const bool three =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return three ? 3 : 0;
}

// The last space before a word belongs to that word: "a  b" is "a", " ", " b".
size_t space_end(std::string_view text, size_t at) noexcept {
  size_t last = at;
  size_t end = at;
  while (end < text.size()) {
    const Seen next = look(text, end);
    if (next.kind != CharKind::space) break;
    last = end;
    end += next.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

}  // namespace

char32_t byte_character(uint8_t byte) noexcept {
  return kAlphabet.character[byte];
}

std::optional<std::string> token_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const Decoded c = decode_utf8(token);
    if (!c.valid || c.code_point >= kMovedEnd || kAlphabet.byte[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<uint8_t>(kAlphabet.byte[c.code_point]));
    token.remove_prefix(c.bytes);
  }
  return bytes;
}

size_t word_end(std::string_view text, size_t at) noexcept {
  if (const size_t bytes = contraction(text, at)) return at + bytes;
  Seen first = look(text, at);
  size_t start = at;
  if (text[at] == ' ' && at + 1 < text.size()) {
    first = look(text, at + 1);
    ++start;
  }
  if (first.kind == CharKind::space) return space_end(text, at);
  return run_end(text, start + first.bytes, first.kind);
}

}  // namespace exeunt
