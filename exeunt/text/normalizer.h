// SPDX-License-Identifier: Apache-2.0
// The "normalizer" part of tokenizer.json: steps that rewrite a text while keeping track of where it came from.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/text/normalized_text.h"

namespace exeunt {

class Charsmap;  // charsmap.h: the map in sentencepiece models

struct BertCleanup {
  bool clean_text = true;     // drop control characters, make every space U+0020
  bool chinese_chars = true;  // spaces around CJK ideographs
  bool strip_accents = true;
  bool lowercase = true;
};
enum class NormalForm { nfc, nfd, nfkc, nfkd };
struct Lowercase {};
struct StripAccents {};
struct JoinWords {};       // words with one space between them, by Python's idea of white space
struct StripCombining {};  // drops code points with a combining class, as Python's unicodedata.combining says
struct Strip {
  bool left = true, right = true;
};
struct Prepend {
  std::string text;
};
struct Replace {
  std::string pattern;  // literal text; with `runs`, two or more of this one character in a row
  std::string content;
  bool runs = false;
};
struct ReplaceBlanks {  // DeBERTa: two or more white spaces in a row, and every single line break or tab
  std::string content;
};

// Steps with sources of their own.
void apply(const BertCleanup& cleanup, NormalizedText& text);
void apply(NormalForm form, NormalizedText& text);  // decomposes, orders the combining marks and may compose again
void apply(Lowercase, NormalizedText& text);        // code point by code point

using NormalizerStep = std::variant<BertCleanup, NormalForm, Lowercase, StripAccents, Strip, Prepend, Replace,
                                    ReplaceBlanks, std::shared_ptr<const Charsmap>, JoinWords, StripCombining>;
using Normalizer = std::vector<NormalizerStep>;

// Reads the JSON form (null: no steps). An unknown kind or pattern is an error that names it.
[[nodiscard]] Normalizer parse_normalizer(const Json& value, const std::string& where);

// Throws Error if the text grows to more than kMaxGrowth times its size and some.
void normalize(const Normalizer& normalizer, NormalizedText& text);
// The same for a range of the original, of which long ones are normalised in pieces: what a step needs while it runs
// takes no more memory than a piece, but Error is thrown if a piece grows as much.
[[nodiscard]] NormalizedText normalize_long(const Normalizer& normalizer, std::string_view text, uint32_t first);

// The last place at or shortly before byte `at` of `text` (valid UTF-8) where it may be cut: both parts are normalised
// as if they were together; `at_edge` white space may be missing. 0 if there is none.
enum class Cut { exact, at_edge };
[[nodiscard]] size_t find_cut(const Normalizer& normalizer, std::string_view text, size_t at, Cut cut = Cut::exact);

// No normal form and no lower case takes more than 11 times as many bytes; two dozen steps that replace "a" by "aa"
// would take gigabytes for a word.
inline constexpr size_t kMaxGrowth = 32;
[[noreturn]] void throw_grown_too_long();

}  // namespace exeunt
