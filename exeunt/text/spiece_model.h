// SPDX-License-Identifier: Apache-2.0
// spiece.model: a SentencePiece unigram model as its trainer wrote it, a protocol buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace exeunt
