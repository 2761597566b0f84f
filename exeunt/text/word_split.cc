// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/word_split.h"

#include <array>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

// Adjacent characters of one kind form a word; `alone` is a word by itself, `space` belongs to none.
enum class WordKind : uint8_t { space, word, other, alone, decode };

WordKind kind_of(WordSplit split, char32_t c) noexcept {
  if (split == WordSplit::none) return WordKind::word;
  if (unicode::is_space(c)) return WordKind::space;
  if (split == WordSplit::bert) return unicode::is_bert_punctuation(c) ? WordKind::alone : WordKind::word;
  if (split == WordSplit::whitespace) return unicode::is_word(c) ? WordKind::word : WordKind::other;
  return WordKind::word;
}

// Kinds of single bytes, computed once; bytes above ASCII have to be decoded.
std::array<WordKind, 256> byte_kinds(WordSplit split) noexcept {
  std::array<WordKind, 256> kinds;
  for (size_t c = 0; c < kinds.size(); ++c) {
    kinds[c] = c < 0x80 ? kind_of(split, static_cast<char32_t>(c)) : WordKind::decode;
  }
  return kinds;
}

const std::array<WordKind, 256>& kinds_for(WordSplit split) noexcept {
  static const std::array<std::array<WordKind, 256>, 4> kKinds = {
      byte_kinds(WordSplit::bert), byte_kinds(WordSplit::whitespace), byte_kinds(WordSplit::whitespace_split),
      byte_kinds(WordSplit::none)};
  return kKinds[static_cast<size_t>(split)];
}

}  // namespace

WordSplit parse_word_split(const Json& value, const std::string& where) {
  if (value.is_null()) return WordSplit::none;
  JsonObject object(value, where);
  const std::string type = object.choice("type", {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"});
  object.finish();
  if (type == "BertPreTokenizer") return WordSplit::bert;
  return type == "Whitespace" ? WordSplit::whitespace : WordSplit::whitespace_split;
}

WordRange next_word(WordSplit split, std::string_view text, size_t at) noexcept {
  const auto& kinds = kinds_for(split);
  struct Next {
    WordKind kind;
    size_t bytes;
  };
  const auto look = [&](size_t place) -> Next {
    const WordKind kind = kinds[static_cast<uint8_t>(text[place])];
    if (kind != WordKind::decode) return {kind, 1};
    const Decoded next = decode_utf8(text.substr(place));
    return {kind_of(split, next.code_point), next.bytes};
  };
  Next next{WordKind::space, 0};
  while (at < text.size() && (next = look(at)).kind == WordKind::space) at += next.bytes;
  const size_t begin = at;
  if (begin == text.size()) return {begin, begin};
  const WordKind kind = next.kind;
  at += next.bytes;
  if (kind == WordKind::alone) return {begin, at};
  while (at < text.size() && (next = look(at)).kind == kind) at += next.bytes;
  return {begin, at};
}

}  // namespace exeunt
