// SPDX-License-Identifier: Apache-2.0
// Word boundaries: the pre-tokenizers used with WordPiece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "exeunt/base/json.h"

namespace exeunt {

enum class WordSplit {
  bert,              // at white space; each punctuation mark is a separate word
  whitespace,        // \w+ or [^\w\s]+
  whitespace_split,  // at white space alone
  none,              // the whole text is one word
};

// Reads the JSON form (null: none). A kind that WordPiece does not support is an error that names it.
[[nodiscard]] WordSplit parse_word_split(const Json& value, const std::string& where);

// The first word at or after byte `at` of `text` (valid UTF-8): its begin and end; both are the text's size if there
// is none.
struct WordRange {
  size_t begin, end;
};
[[nodiscard]] WordRange next_word(WordSplit split, std::string_view text, size_t at) noexcept;

}  // namespace exeunt
