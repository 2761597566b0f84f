// SPDX-License-Identifier: Apache-2.0
// The unigram model (Kudo 2018): of all ways to split a word into pieces, the one with the largest sum of scores.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/text/byte_trie.h"
#include "exeunt/text/word_token.h"

namespace exeunt {

class UnigramModel {
 public:
  using Vocabulary = std::vector<std::pair<std::string, double>>;  // pieces with their scores; place = id
  struct Options {
    int32_t unknown = 0;         // the id of text that no piece covers
    bool byte_fallback = false;  // unknown text as <0x41> pieces, if all of its bytes have one
    bool fuse_unknown = true;    // adjacent unknown characters are one token
  };
  // The caller has checked: `unknown` is an id, scores are finite, pieces are valid UTF-8.
  UnigramModel(const Vocabulary& vocabulary, const Options& options);

  // Working memory, reused between words. One per thread.
  struct Scratch {
    struct Best {
      double score;
      uint32_t start;
      int32_t id;
    };
    std::vector<Best> best;  // [bytes of the word + 1]: the best path to there
    std::vector<WordToken> tokens;
  };

  // The tokens of `word` (valid UTF-8, below 4 GiB) in scratch.tokens.
  void encode(std::string_view word, Scratch& scratch) const;

 private:
  void search(std::string_view word, std::vector<Scratch::Best>& best) const;
  void trace_back(std::string_view word, Scratch& scratch) const;
  void add_unknown(std::string_view word, uint32_t begin, uint32_t end, std::vector<WordToken>& out) const;

  ByteTrie trie_;
  std::vector<double> scores_;
  std::vector<bool> whole_;  // this piece is its own best segmentation
  std::array<int32_t, 256> bytes_;
  Options options_;
  double unknown_score_;
};

}  // namespace exeunt
