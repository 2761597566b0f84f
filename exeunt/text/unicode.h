// SPDX-License-Identifier: Apache-2.0
// What the oracle (npm package tokenizers) knows of each code point. Its parts follow different versions of Unicode, so
// one property may stand here twice; the tables are made by asking it about every code point (scripts/unicode).
#pragma once

#include <cstdint>
#include <string_view>

namespace exeunt::unicode {

// BERT's own view of a code point, as its normaliser and pre-tokenizer use it.
[[nodiscard]] bool is_bert_removed(char32_t c) noexcept;      // clean_text drops it: controls, unassigned, U+FFFD
[[nodiscard]] bool is_bert_accent(char32_t c) noexcept;       // strip_accents drops it after decomposition
[[nodiscard]] bool is_bert_punctuation(char32_t c) noexcept;  // a word of its own
[[nodiscard]] bool is_chinese(char32_t c) noexcept;           // set apart by spaces

[[nodiscard]] bool is_space(char32_t c) noexcept;   // White_Space
[[nodiscard]] bool is_word(char32_t c) noexcept;    // \w of single_word and of the Whitespace pre-tokenizer
[[nodiscard]] bool is_mark(char32_t c) noexcept;    // the StripAccents normaliser drops it
[[nodiscard]] bool is_letter(char32_t c) noexcept;  // \p{L} of the byte-level split
[[nodiscard]] bool is_number(char32_t c) noexcept;  // \p{N} of the byte-level split

// Canonical combining classes as ranks that keep their order; 0 is a starter.
[[nodiscard]] uint8_t combining_rank(char32_t c) noexcept;

// Lower case of one code point, without context. Only U+0130 gives two; `second` is 0 elsewhere.
struct Lower {
  char32_t first, second;
};
[[nodiscard]] Lower lowercase(char32_t c) noexcept;

// Full canonical (or compatibility) decomposition, empty where there is none. Hangul is left to arithmetic.
[[nodiscard]] std::u32string_view decomposition(char32_t c, bool compatibility) noexcept;

// The code point that `a` followed by `b` composes to, or 0. Without Hangul.
[[nodiscard]] char32_t composition(char32_t a, char32_t b) noexcept;

// The version of the oracle that the tables were made from.
[[nodiscard]] std::string_view oracle_version() noexcept;

}  // namespace exeunt::unicode
