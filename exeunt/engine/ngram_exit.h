// SPDX-License-Identifier: Apache-2.0
// The exit before the first layer, exit 0: it answers from hashed n-grams of a text's tokens, without the encoder.
//   h = Σ_f T[f] / √n over the n features f of the text,   z = W h + b   (no W where a row of T has all outputs)
// Sums run over the features in their order, so a text gets the same bits on every machine, alone or beside others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

// The text of every token: a blank first where it begins a word; nothing for special tokens, which separate texts.
struct TokenPieces {
  std::vector<uint8_t> bytes = {};
  std::vector<int32_t> begins = {};  // [vocabulary + 1] where each begins in `bytes`
};
[[nodiscard]] TokenPieces token_pieces(const Tokenizer& tokenizer, int vocabulary);

// The features of a text, as places in a table of 2^bits rows: every token, every two tokens in a row, every word of
// several tokens, and every 3 to 5 bytes in a row of a word with its ends marked. Those of a second text are others.
class NgramFeatures {
 public:
  // The pieces outlive it. Ids of texts are within them.
  NgramFeatures(std::span<const uint8_t> bytes, std::span<const int32_t> begins, int bits)
      : bytes_(bytes), begins_(begins), shift_(64 - bits) {}

  template <class Use>
  void each(std::span<const int32_t> ids, Use use) const {
    Word word;
    uint64_t text = 1, before = 0;  // before: the previous token, 0 for none
    for (const int32_t id : ids) {
      const std::span<const uint8_t> piece = piece_of(id);
      if (piece.empty()) {
        end_word(word, text, use);
        text += before == 0 ? 0 : 1;
        before = 0;
        continue;
      }
      const uint64_t token = static_cast<uint64_t>(id) + 1;
      use(place(kToken, text, token));
      if (before != 0) use(place(kPair, text, before * 0x1000003U + token));
      before = token;
      if (piece[0] == ' ') end_word(word, text, use);
      add_piece(word, piece);
    }
    end_word(word, text, use);
  }

 private:
  enum Kind : uint64_t { kToken = 1, kPair, kWord, kBytes };
  static constexpr size_t kMaxWord = 48;  // bytes of a word that are looked at
  static constexpr int kShortest = 3, kLongest = 5;
  struct Word {
    std::array<uint8_t, kMaxWord + 2> bytes = {'<'};
    size_t size = 1;  // with the mark before it
    int tokens = 0;
  };

  [[nodiscard]] std::span<const uint8_t> piece_of(int32_t id) const noexcept {
    const auto begin = static_cast<size_t>(begins_[static_cast<size_t>(id)]);
    return bytes_.subspan(begin, static_cast<size_t>(begins_[static_cast<size_t>(id) + 1]) - begin);
  }
  [[nodiscard]] uint32_t place(Kind kind, uint64_t text, uint64_t value) const noexcept {
    uint64_t hash = value + 0x9e3779b97f4a7c15U * (8 * text + kind);
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
    return static_cast<uint32_t>((hash ^ (hash >> 31)) >> shift_);
  }
  static void add_piece(Word& word, std::span<const uint8_t> piece) noexcept {
    for (const uint8_t byte : piece.subspan(piece[0] == ' ' ? 1 : 0)) {
      if (word.size <= kMaxWord) word.bytes[word.size++] = byte;
    }
    ++word.tokens;
  }
  template <class Use>
  void end_word(Word& word, uint64_t text, Use& use) const {
    if (word.tokens > 0) {
      word.bytes[word.size++] = '>';
      if (word.tokens > 1) use(place(kWord, text, joined(word, 0, word.size)));
      for (size_t begin = 0; begin + kShortest <= word.size; ++begin) {
        const size_t most = word.size - begin < kLongest ? word.size - begin : kLongest;
        for (size_t count = kShortest; count <= most; ++count) use(place(kBytes, text, joined(word, begin, count)));
      }
    }
    word.size = 1;
    word.tokens = 0;
  }
  static uint64_t joined(const Word& word, size_t begin, size_t count) noexcept {
    uint64_t out = count;
    for (size_t i = begin; i < begin + count; ++i) out = (out ^ word.bytes[i]) * 0x100000001b3U;
    return out;
  }

  std::span<const uint8_t> bytes_;
  std::span<const int32_t> begins_;
  int shift_;
};

class NgramExit {
 public:
  // Of a model that has one. Its table stays in the mapped file. Throws Error (bad_file) for pieces that do not fit and
  // for numbers that are not finite.
  explicit NgramExit(const Checkpoint& checkpoint);
  NgramExit(const NgramExit&) = delete;
  NgramExit& operator=(const NgramExit&) = delete;

  // Writes [outputs] logits of a text that check_text() has passed. Allocates nothing.
  void run(std::span<const int32_t> ids, float* logits) const noexcept;

 private:
  int rank_, outputs_;
  std::vector<std::shared_ptr<const void>> owners_;  // of the table
  std::vector<uint16_t> own_table_ = {};             // where the file's is not aligned
  const uint16_t* table_ = nullptr;                  // [2^bits, rank] bf16
  std::vector<float> output_ = {}, bias_;
  TokenPieces pieces_;
  NgramFeatures features_;
};

}  // namespace exeunt
