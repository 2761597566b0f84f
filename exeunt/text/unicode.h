// SPDX-License-Identifier: Apache-2.0
// Unicode properties as the oracle (npm package tokenizers) applies them. Its parts follow different Unicode versions,
// so one property may appear twice; scripts/unicode generates the tables by querying every code point.
#pragma once

#include <cstdint>
#include <string_view>

namespace exeunt::unicode {

// Properties that BERT's normaliser and pre-tokenizer use.
[[nodiscard]] bool is_bert_removed(char32_t c) noexcept;      // clean_text drops it: controls, unassigned, U+FFFD
[[nodiscard]] bool is_bert_accent(char32_t c) noexcept;       // strip_accents drops it after decomposition
[[nodiscard]] bool is_bert_punctuation(char32_t c) noexcept;  // a separate word
[[nodiscard]] bool is_chinese(char32_t c) noexcept;           // surrounded by spaces

[[nodiscard]] bool is_space(char32_t c) noexcept;   // White_Space
[[nodiscard]] bool is_word(char32_t c) noexcept;    // \w of single_word and of the Whitespace pre-tokenizer
[[nodiscard]] bool is_mark(char32_t c) noexcept;    // the StripAccents normaliser drops it
[[nodiscard]] bool is_letter(char32_t c) noexcept;  // \p{L} of the byte-level split
[[nodiscard]] bool is_number(char32_t c) noexcept;  // \p{N} of the byte-level split

// Canonical combining classes as ranks that keep their order; 0 is a starter.
[[nodiscard]] uint8_t combining_rank(char32_t c) noexcept;

// Lower case of one code point, without context. Only U+0130 gives two; otherwise `second` is 0.
struct Lower {
  char32_t first, second;
};
[[nodiscard]] Lower lowercase(char32_t c) noexcept;

// Full canonical (or compatibility) decomposition, empty if there is none. Hangul is computed arithmetically.
[[nodiscard]] std::u32string_view decomposition(char32_t c, bool compatibility) noexcept;

// The code point that `a` followed by `b` composes to, or 0. Without Hangul.
[[nodiscard]] char32_t composition(char32_t a, char32_t b) noexcept;

}  // namespace exeunt::unicode
