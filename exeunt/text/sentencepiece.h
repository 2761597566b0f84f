// SPDX-License-Identifier: Apache-2.0
// spiece.model, a SentencePiece unigram model as its trainer wrote it (a protocol buffer), and SentencePiece's own way
// from text to pieces: its normaliser and its search, to the last bit of their sums. That differs from what Hugging
// Face's tokenizers make of the same file (unigram.h, charsmap.h): spaces are part of the search, the longest entry of
// the character map wins, and user-defined pieces compete instead of being cut out first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/byte_trie.h"
#include "exeunt/text/normalized_text.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {

inline constexpr size_t kMaxPieceBytes = 1024;  // the trainer's limit is 16 characters; this bounds the search

struct SentencePiece {
  enum class Kind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  std::string text;
  float score = 0;
  Kind kind = Kind::normal;
};

struct SpieceModel {
  std::vector<SentencePiece> pieces;  // index = id
  int32_t unknown = 0;
  std::string charsmap;  // NormalizerSpec.precompiled_charsmap, may be empty
  struct Whitespace {    // the rest of NormalizerSpec
    bool dummy_prefix = true, remove_extra = true, escape = true;
  };
  Whitespace whitespace = {};
  bool byte_fallback = false;
};

// Reads only known fields and validates all of them; fields of later versions are skipped. Throws Error (prefixed by
// `where`), also for a model that is not unigram.
[[nodiscard]] SpieceModel parse_spiece_model(std::span<const std::byte> bytes, const std::string& where);

// spiece.vocab, one piece and its score per line, as the trainer writes it next to the model. Throws Error at the first
// line that disagrees with `model`.
void check_spiece_vocab(const SpieceModel& model, std::string_view text, const std::string& where);

// The id of a special token's piece. Throws Error if there is none.
[[nodiscard]] int32_t find_piece(const SpieceModel& model, const std::string& text, const std::string& where);

class Charsmap;

inline constexpr std::string_view kSpaceMark = "\u2581";  // ▁, a space within pieces

class SentencePieceModel {
 public:
  // `where` prefixes errors of the character map.
  SentencePieceModel(const SpieceModel& model, const std::string& where);

  // The character map, spaces as ▁, and no more of them than the model's settings keep.
  [[nodiscard]] NormalizedText normalize(const NormalizedText& text) const;

  // The pieces of a normalised text; adjacent unknown characters are one piece. `score` is that of the parts before it,
  // and becomes that of this one, too.
  [[nodiscard]] std::vector<WordToken> encode(std::string_view normalized, float& score) const;
  [[nodiscard]] std::vector<WordToken> encode(std::string_view normalized) const {
    float score = 0;
    return encode(normalized, score);
  }
  // Where the part that begins at byte `at` of a normalised text ends, by which it may be encoded: before the next
  // space, unless pieces have spaces in them.
  [[nodiscard]] size_t part_end(std::string_view normalized, size_t at) const noexcept;

  [[nodiscard]] int32_t id(std::string_view piece) const noexcept;  // the unknown piece's if there is none

 private:
  struct Prefix {
    std::string_view text;
    size_t bytes;  // of the source
  };
  [[nodiscard]] Prefix normal_prefix(std::string_view rest) const;
  // As it is in a normalised text.
  [[nodiscard]] std::string_view space() const noexcept { return whitespace_.escape ? kSpaceMark : " "; }

  ByteTrie searched_, all_, user_defined_;  // pieces the search knows; all of them; those that are never normalised
  std::vector<SentencePiece> pieces_;
  std::shared_ptr<const Charsmap> charsmap_;
  SpieceModel::Whitespace whitespace_;
  int32_t unknown_;
  bool parts_ = false;  // every piece ends before the next space
  float unknown_score_ = 0, best_score_ = 0;
};

}  // namespace exeunt
