// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE (Sennrich 2016, GPT-2, RoBERTa): text is split into words, and the bytes of a word are merged pair by
// pair, the earliest merge of the list first, the leftmost of equal ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/byte_trie.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {

// The character that represents a byte in vocab.json and merges.txt: itself if it is printable Latin-1, else one of
// U+0100 to U+0143; a space is U+0120 (Ġ).
[[nodiscard]] char32_t byte_character(uint8_t byte) noexcept;

// The bytes a token represents; nothing if it contains a character that represents none.
[[nodiscard]] std::optional<std::string> token_bytes(std::string_view token);

// End of the word that begins at byte `at` of `text` (valid UTF-8, at < size), by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// which covers every text without a gap.
[[nodiscard]] size_t word_end(std::string_view text, size_t at) noexcept;

struct BpeMerge {
  int32_t left, right, result;
};

class ByteBpeModel {
 public:
  struct Options {
    std::optional<int32_t> unknown = std::nullopt;  // for bytes without a token; without it they are dropped
    bool fuse_unknown = false;                      // adjacent unknown bytes are one token
    bool byte_fallback = false;  // unknown bytes as <0x41> tokens of their written form, if all exist
    bool ignore_merges = false;  // a word that is a token is that token
  };
  // Merges in order. The caller has checked that all ids are of the vocabulary and that the texts of left and right
  // make that of the result; so a merge that was possible once cannot become possible again.
  ByteBpeModel(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const Options& options);

  // Working memory, reused between words. One per thread.
  struct Scratch {
    struct Symbol {
      int32_t id;
      uint32_t size;        // in written bytes; 0 once joined to the left
      uint32_t next, prev;  // kNone at the ends
    };
    struct Candidate {
      uint32_t rank, place;
      int32_t result;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::vector<uint32_t> ranks;
    std::vector<uint32_t> written;  // written byte → byte of the word, if some have no token
    std::vector<WordToken> tokens;
  };

  // The tokens of `word` (raw bytes, below 2 GiB) in scratch.tokens.
  void encode(std::string_view word, Scratch& scratch) const;

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    uint32_t rank = 0;
    int32_t result = 0;
  };
  [[nodiscard]] const Slot* find(int32_t left, int32_t right) const noexcept;
  [[nodiscard]] bool start(std::string_view word, Scratch& scratch) const;
  void add_missing(uint8_t byte, Scratch& scratch, std::optional<Scratch::Symbol>& unknown) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  void offer(Scratch& scratch, uint32_t place) const;

  std::vector<Slot> slots_;  // open addressing, a power of two
  int shift_ = 0;            // 64 - bits of a slot's number
  uint64_t factor_;          // of this process
  ByteTrie words_;           // tokens by their bytes
  std::vector<bool> whole_;  // the merges produce this token from its own bytes
  std::array<int32_t, 256> bytes_{};
  std::array<int32_t, 256> fallback_{};
  Options options_;
};

}  // namespace exeunt
