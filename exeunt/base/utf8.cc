// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/utf8.h"

namespace exeunt {
namespace {

// What the second byte may be after a given first byte (Unicode, table 3-7); later bytes are always 80..BF.
struct Lead {
  uint8_t length, low, high;
};

Lead lead_of(uint8_t byte) noexcept {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Decoded decode_utf8(std::string_view text) noexcept {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte_at(0);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kReplacement, 1, false};
  char32_t code_point = first & (0x7FU >> lead.length);
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i >= text.size()) return {kReplacement, i, false};
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte_at(i) < low || byte_at(i) > high) return {kReplacement, i, false};
    code_point = (code_point << 6) | (byte_at(i) & 0x3FU);
  }
  return {code_point, lead.length, true};
}

void append_utf8(std::string& out, char32_t c) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (c < 0x80) return push(c);
  int rest = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;  // bytes of six bits each behind the first
  push((0xFF00U >> (rest + 1)) | (c >> (6 * rest)));
  while (rest-- > 0) push(0x80U | ((c >> (6 * rest)) & 0x3FU));
}

std::optional<size_t> find_invalid_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.substr(at));
    if (!next.valid) return at;
    at += next.bytes;
  }
  return std::nullopt;
}

namespace {

template <class Keep>
std::string replace_unless(std::string_view text, const Keep& keep) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.substr(at));
    if (next.valid && keep(next.code_point)) {
      out.append(text.substr(at, next.bytes));
    } else {
      append_utf8(out, kReplacement);
    }
    at += next.bytes;
  }
  return out;
}

}  // namespace

std::string replace_invalid_utf8(std::string_view text) {
  return replace_unless(text, [](char32_t) { return true; });
}

std::string terminal_text(std::string_view text) {
  return replace_unless(text, [](char32_t c) { return c == '\n' || c == '\t' || !is_control(c); });
}

std::string terminal_line(std::string_view text) {
  return replace_unless(text, [](char32_t c) { return !is_control(c); });
}

}  // namespace exeunt
