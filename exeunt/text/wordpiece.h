// SPDX-License-Identifier: Apache-2.0
// WordPiece (BERT): a word is split from the left into the longest pieces in the vocabulary. And the
// pre-tokenizers used with it, which find the words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/text/byte_trie.h"
#include "exeunt/text/vocabulary.h"

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

class WordPieceModel {
 public:
  struct Options {
    int32_t unknown = 0;
    std::string prefix = "##";  // prefix of pieces that continue a word
    size_t max_chars = 100;     // longer words become one unknown token
  };
  WordPieceModel(const Vocabulary& vocabulary, const Options& options);

  // The id of `word` if it is one token as a whole, else -1. Words above 16 bytes are handled by cut().
  [[nodiscard]] int32_t whole(std::string_view word) const noexcept;

  // The pieces of `word` (valid UTF-8, not empty); one unknown piece if it cannot be split.
  void cut(std::string_view word, std::vector<WordToken>& pieces) const;

 private:
  // A short word as numbers: with its size, equal keys are equal words.
  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    uint32_t size = 0;  // 0 = free
    int32_t id = -1;
  };
  static Key key_of(std::string_view word) noexcept;
  [[nodiscard]] size_t slot_of(Key key, size_t size) const noexcept;
  [[nodiscard]] bool longest(const ByteTrie& trie, std::string_view word, WordToken& piece) const noexcept;

  ByteTrie starts_, continuations_;  // values are indices into the two lists
  std::vector<int32_t> start_ids_, continuation_ids_;
  std::vector<Slot> slots_;  // open addressing, a power of two, id -1 = free
  HashSecret secret_ = hash_secret();
  int shift_ = 63;
  int32_t unknown_;
  size_t max_chars_;
};

}  // namespace exeunt
