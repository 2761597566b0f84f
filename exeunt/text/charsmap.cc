// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/charsmap.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/graphemes.h"
#include "exeunt/text/normalizer.h"

namespace exeunt {
namespace {

// The bits of a darts-clone unit. A leaf has the top bit set, so its label equals no byte.
uint32_t label_of(uint32_t unit) noexcept {
  return unit & 0x800000FFU;
}
bool has_leaf(uint32_t unit) noexcept {
  return ((unit >> 8) & 1U) != 0;
}
uint32_t offset_of(uint32_t unit) noexcept {
  return (unit >> 10) << ((unit & 0x200U) >> 6);
}
uint32_t value_of(uint32_t leaf) noexcept {
  return leaf & 0x7FFFFFFFU;
}

uint32_t little_endian(std::string_view bytes, size_t at) noexcept {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

bool continues(char c) noexcept {
  return (static_cast<uint8_t>(c) & 0xC0U) == 0x80U;
}

constexpr size_t kWholeBelow = 6;       // larger clusters are never looked up whole
constexpr size_t kMaxEntryBytes = 256;  // entries are characters with their marks

// One code point of the result: it replaces one of the source (0), one and the `-change` after it, or is inserted (1)
// and replaces none.
struct Edit {
  char32_t code_point;
  int change;
};

// If nothing is left of `old`, the code point before it takes its place; at the very start there is none, and the
// oracle's offsets shift accordingly. So do ours.
void replace(std::vector<Edit>& edits, std::string_view old, std::string_view by) {
  const auto before = static_cast<int>(count_code_points(old));
  int after = 0;
  for (size_t at = 0; at < by.size(); ++after) {
    const Decoded c = decode_utf8(by.substr(at));
    edits.push_back({c.code_point, after < before ? 0 : 1});
    at += c.bytes;
  }
  if (after < before && !edits.empty()) edits.back().change += after - before;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  const size_t trie = bytes.size() < 4 ? 0 : little_endian(bytes, 0);
  if (trie == 0 || trie % 4 != 0 || trie > bytes.size() - 4) {
    throw_bad_file(where, "precompiled_charsmap: got {} bytes with a trie of {}, want one of at least 4 that fits",
                   bytes.size(), trie);
  }
  units_.reserve(trie / 4);
  for (size_t at = 4; at < trie + 4; at += 4) units_.push_back(little_endian(bytes, at));
  replacements_ = bytes.substr(trie + 4);
  if (const auto bad = find_invalid_utf8(replacements_)) {
    throw_bad_file(where, "precompiled_charsmap: byte {} of the replacements is not UTF-8", *bad);
  }
  check_units(where);
  for (size_t c = 0; c < ascii_.size(); ++c) {
    const char text = static_cast<char>(c);
    ascii_[c] = find({&text, 1}).has_value();
  }
}

// Every leaf must lead to the start of a replacement's code point: what find() gives is then valid UTF-8.
void Charsmap::check_units(const std::string& where) const {
  for (size_t i = 0; i < units_.size(); ++i) {
    if ((units_[i] & 0x80000000U) != 0 || !has_leaf(units_[i])) continue;
    const size_t leaf = i ^ offset_of(units_[i]);
    const size_t start = leaf < units_.size() ? value_of(units_[leaf]) : SIZE_MAX;
    if (start > replacements_.size() || (start < replacements_.size() && continues(replacements_[start]))) {
      throw_bad_file(where, "precompiled_charsmap: unit {} leads outside the {} bytes of replacements", i,
                     replacements_.size());
    }
  }
}

template <class Found>
void Charsmap::walk(std::string_view text, const Found& found) const {
  size_t node = offset_of(units_[0]);
  for (size_t at = 0; at < text.size(); ++at) {
    if (at == kMaxEntryBytes) {  // a damaged trie may lead back to itself
      throw_bad_file("precompiled_charsmap", "got an entry of more than {} bytes", kMaxEntryBytes);
    }
    const auto byte = static_cast<uint8_t>(text[at]);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) return;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const auto rest = std::string_view(replacements_).substr(value_of(units_[node]));
    if (!found(rest.substr(0, rest.find('\0')), at + 1)) return;
  }
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  std::optional<std::string_view> shortest;
  walk(text, [&](std::string_view by, size_t) {
    shortest = by;
    return false;
  });
  return shortest;
}

std::optional<std::pair<std::string_view, size_t>> Charsmap::find_longest(std::string_view text) const {
  std::optional<std::pair<std::string_view, size_t>> longest;
  walk(text, [&](std::string_view by, size_t bytes) {
    longest.emplace(by, bytes);
    return true;
  });
  return longest;
}

bool Charsmap::touches_ascii(std::string_view text) const noexcept {
  return std::ranges::any_of(text, [&](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < 0x80 && (ascii_[byte] || c == '\r');
  });
}

std::shared_ptr<const Charsmap> parse_charsmap(std::string_view base64, const std::string& where) {
  std::string bytes;
  bytes.reserve(base64.size() / 4 * 3);
  const size_t full = base64.size();
  while (!base64.empty() && base64.back() == '=' && full - base64.size() < 2) base64.remove_suffix(1);
  uint32_t bits = 0;
  int count = 0;
  for (size_t at = 0; at < base64.size(); ++at) {
    const char c = base64[at];
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) throw_bad_file(where, "precompiled_charsmap: character {} is not base64", at + 1);
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(static_cast<uint8_t>(bits >> count));
  }
  if (full % 4 != 0 || (bits & ((1U << count) - 1)) != 0) {
    throw_bad_file(where, "precompiled_charsmap: the base64 text of {} characters is cut off", full);
  }
  return std::make_shared<const Charsmap>(bytes, where);
}

void apply_charsmap(const Charsmap& charsmap, NormalizedText& text, size_t most) {
  const std::string_view source = text.text();
  if (is_ascii(source) && !charsmap.touches_ascii(source)) return;
  std::vector<Edit> edits;
  edits.reserve(source.size());
  bool changed = false;
  const auto offer = [&](std::string_view part) {
    const auto by = charsmap.find(part);
    if (by) {
      if (by->size() > most - std::min(most, edits.size())) throw_grown_too_long();
      replace(edits, part, *by);
    }
    changed |= by.has_value();
    return by.has_value();
  };
  for (size_t at = 0; at < source.size();) {
    const std::string_view cluster = source.substr(at, grapheme_bytes(source.substr(at)));
    at += cluster.size();
    if (cluster.size() < kWholeBelow && offer(cluster)) continue;
    for (size_t i = 0; i < cluster.size();) {
      const Decoded c = decode_utf8(cluster.substr(i));
      if (!offer(cluster.substr(i, c.bytes))) edits.push_back({c.code_point, 0});
      i += c.bytes;
    }
  }
  if (!changed) return;
  NormalizedText result(text.first());
  result.reserve(source.size());
  size_t at = 0;
  const auto skip = [&] { at += at < source.size() ? decode_utf8(source.substr(at)).bytes : 0; };
  for (const Edit& edit : edits) {
    result.append(edit.code_point, text.origin(edit.change > 0 ? at - 1 : at));
    for (int taken = edit.change; taken <= 0; ++taken) skip();
  }
  text = std::move(result);
}

}  // namespace exeunt
