// SPDX-License-Identifier: Apache-2.0
// SentencePiece's own way from text to pieces: its normaliser and its search, to the last bit of their sums. It differs
// from what Hugging Face's tokenizers make of the same file (unigram.h, charsmap.h): spaces are part of the search, the
// longest entry of the character map wins, and user-defined pieces compete instead of being cut out first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/byte_trie.h"
#include "exeunt/text/normalized_text.h"
#include "exeunt/text/spiece_model.h"
#include "exeunt/text/word_token.h"

namespace exeunt {

class Charsmap;

inline constexpr std::string_view kSpaceMark = "\u2581";  // ▁, a space within pieces

class SentencePieceModel {
 public:
  // `where` prefixes errors of the character map.
  SentencePieceModel(const SpieceModel& model, const std::string& where);
  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(SentencePieceModel&&) = delete;

  // The character map, spaces as ▁, and no more of them than the model's settings keep.
  [[nodiscard]] NormalizedText normalize(const NormalizedText& text) const;

  // The pieces of a normalised text; adjacent unknown characters are one piece.
  [[nodiscard]] std::vector<WordToken> encode(std::string_view normalized) const;

  [[nodiscard]] int32_t id(std::string_view piece) const noexcept;  // the unknown piece's if there is none

 private:
  struct Prefix {
    std::string_view text;
    size_t bytes;  // of the source
  };
  [[nodiscard]] Prefix normal_prefix(std::string_view rest) const noexcept;

  ByteTrie searched_, all_, user_defined_;  // pieces the search knows; all of them; those that are never normalised
  std::vector<SentencePiece> pieces_;
  std::unique_ptr<const Charsmap> charsmap_;
  SpieceModel::Whitespace whitespace_;
  int32_t unknown_;
  float unknown_score_ = 0, best_score_ = 0;
};

}  // namespace exeunt
