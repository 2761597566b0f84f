// SPDX-License-Identifier: Apache-2.0
// The unigram model (Kudo 2018): of all ways to split a word into pieces, the one with the largest sum of scores. And
// the pre-tokenization of its families: spaces become ▁, and each ▁ begins a word.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/text/byte_trie.h"
#include "exeunt/text/normalized_text.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {

struct Metaspace {
  enum class Prepend : uint8_t { always, first, never };  // first: only at the beginning of the text
  bool whitespace_split = false;                          // splits at white space, which is dropped
  std::string mark = "\u2581";                            // replaces a space; empty: spaces stay
  Prepend prepend = Prepend::always;
  bool split = true;
};

// Reads Metaspace, WhitespaceSplit, a Sequence of the second and the first, or null. Throws Error.
[[nodiscard]] Metaspace parse_metaspace(const Json& pre_tokenizer, const std::string& where);

// One word: `text` as the model sees it. Its first `mark` bytes represent byte `first` of the normalised text (a space,
// or the character they precede); the remaining bytes are those from `rest` on.
struct MarkedWord {
  std::string text;
  size_t mark = 0;
  size_t first = 0, rest = 0;

  // The origin of bytes [begin, end) of the word; marks are never split.
  [[nodiscard]] Offset origin(const NormalizedText& source, size_t begin, size_t end) const noexcept {
    const size_t from = begin < mark ? first : rest + (begin - mark);
    return source.origin(from, end <= mark ? from + 1 : rest + (end - mark));
  }
};

// The words of bytes [begin, end) of a text, one after another. `split` must be set, or `mark` empty.
class MetaspaceWords {
 public:
  MetaspaceWords(const Metaspace& metaspace, const NormalizedText& source, size_t begin, size_t end)
      : metaspace_(metaspace), source_(source), at_(begin), end_(end), chunk_end_(begin) {}
  MetaspaceWords(Metaspace&&, const NormalizedText&, size_t, size_t) = delete;  // both are kept by reference

  [[nodiscard]] bool next(MarkedWord& word);

 private:
  [[nodiscard]] bool next_chunk();
  [[nodiscard]] bool at_mark(size_t at) const noexcept {
    const std::string_view text = source_.text();
    return text[at] == ' ' ||
           (text[at] == metaspace_.mark[0] && text.substr(at, metaspace_.mark.size()) == metaspace_.mark);
  }

  const Metaspace& metaspace_;
  const NormalizedText& source_;
  size_t at_, end_, chunk_end_;
  bool put_mark_ = false;  // the chunk begins with a mark we added
};

// `source` from `begin` to `end` with every space replaced by a mark, for models that take the text as one piece.
[[nodiscard]] NormalizedText mark_blanks(const Metaspace& metaspace, const NormalizedText& source, size_t begin,
                                         size_t end);

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
