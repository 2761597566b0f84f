// SPDX-License-Identifier: Apache-2.0
// The normalisation table of sentencepiece models: a double-array trie from short texts to their replacements.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/text/normalized_text.h"

namespace exeunt {

class Charsmap {
 public:
  // The bytes of "precompiled_charsmap": the trie's size, the trie (darts-clone units), then replacements, each ended
  // by a zero byte. Throws Error (prefixed by `where`) for anything else.
  Charsmap(std::string_view bytes, const std::string& where);

  // The replacement of `text` as a whole: the entry of its *shortest* prefix that has one. This is what the oracle
  // does; a prefix that is an entry hides longer ones. Both searches throw Error if `text` leads deeper than any entry.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

  // The replacement of the *longest* prefix of `text` that has an entry, and that prefix's size, as in sentencepiece.
  [[nodiscard]] std::optional<std::pair<std::string_view, size_t>> find_longest(std::string_view text) const;

  // False only if every ASCII character of `text` is unchanged. CR LF counts as one change.
  [[nodiscard]] bool touches_ascii(std::string_view text) const noexcept;

 private:
  void check_units(const std::string& where) const;
  // Calls `found(replacement, bytes)` for each prefix of `text` with an entry, shortest first, while it returns true.
  template <class Found>
  void walk(std::string_view text, const Found& found) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> ascii_{};  // characters with their own entry
};

// The same in base64, as in tokenizer.json.
[[nodiscard]] std::shared_ptr<const Charsmap> parse_charsmap(std::string_view base64, const std::string& where);

// Replaces grapheme clusters below six bytes as a whole if they have an entry, everything else by code point.
// Throws Error for more than `most` code points.
void apply_charsmap(const Charsmap& charsmap, NormalizedText& text, size_t most = SIZE_MAX);

}  // namespace exeunt
