// SPDX-License-Identifier: Apache-2.0
// Pre-tokenization of the sentencepiece families: spaces become ▁, and each ▁ begins a word.
#pragma once

#include <cstdint>
#include <string>

#include "exeunt/base/json.h"
#include "exeunt/text/normalized_text.h"

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

}  // namespace exeunt
