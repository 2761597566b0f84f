// SPDX-License-Identifier: Apache-2.0
// The normalisation that sentencepiece models carry: a double-array trie from short texts to what replaces them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/normalized_text.h"

namespace exeunt {

class Charsmap {
 public:
  // The bytes of "precompiled_charsmap": the trie's size, the trie (darts-clone units), then replacements, each ended
  // by a zero byte. Throws Error (opened by `where`) if they are anything else.
  Charsmap(std::string_view bytes, const std::string& where);

  // What replaces `text` as a whole: the entry of its *shortest* prefix that has one. This is the oracle's reading; a
  // prefix that is an entry hides longer ones.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const noexcept;

  // False only if every ASCII character of `text` stays as it is. CR LF counts as one change.
  [[nodiscard]] bool touches_ascii(std::string_view text) const noexcept;

 private:
  void check_units(const std::string& where) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> ascii_{};  // characters with an entry of their own
};

// The same in base64, as tokenizer.json holds it.
[[nodiscard]] std::shared_ptr<const Charsmap> parse_charsmap(std::string_view base64, const std::string& where);

// Replaces grapheme clusters below six bytes as a whole where they have an entry, all else code point by code point.
void apply_charsmap(const Charsmap& charsmap, NormalizedText& text);

}  // namespace exeunt
