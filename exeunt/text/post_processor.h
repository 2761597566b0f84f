// SPDX-License-Identifier: Apache-2.0
// Special tokens around one or two texts, and truncation to a maximum length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/text/tokenizer.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {

// Tokens of one text, without special tokens. Once a word reaches `limit`, what follows cannot be part of the result
// and is dropped. The oracle does the same, with a visible effect: of two texts truncated like this, the longer one may
// no longer be the longer.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<Offset> offsets;
  size_t limit = SIZE_MAX;
  bool cut = false;         // there was more
  bool after_word = false;  // the last token belongs to a word, not to an added token

  void add(int32_t id, Offset offset) {
    ids.push_back(id);
    offsets.push_back(offset);
  }
  void add_added(int32_t id, Offset offset) {
    add(id, offset);
    after_word = false;
  }
  void drop_first(size_t count) {
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count));
    offsets.erase(offsets.begin(), offsets.begin() + static_cast<ptrdiff_t>(count));
    cut |= count > 0;
  }
  // To be checked before anything else is added: will it be dropped?
  [[nodiscard]] bool stopped() noexcept {
    cut |= after_word && ids.size() >= limit;
    return cut;
  }
  // The same, checked by a model before each word.
  [[nodiscard]] bool stop() noexcept {
    after_word |= !stopped();
    return cut;
  }
};

// One element of a template: the first or second text, or special tokens. Every token in it gets `type`.
struct TemplatePiece {
  enum class Kind : uint8_t { first, second, special };
  Kind kind = Kind::first;
  std::vector<int32_t> ids;  // of a special piece
  uint8_t type = 0;
};
using Template = std::vector<TemplatePiece>;

struct PostProcessor {
  Template single = {{TemplatePiece::Kind::first, {}, 0}};
  Template pair = {{TemplatePiece::Kind::first, {}, 0}, {TemplatePiece::Kind::second, {}, 1}};
  bool trim_offsets = false;       // byte-level families: offsets exclude white space
  bool add_prefix_space = false;   // from the post-processor; affects only trim_offsets
  bool larger_half_first = false;  // of a room with an odd size, as slow tokenizers divide it between two long texts
};

// White space at the ends of a token's text, in characters; Ġ represents a space.
struct Blanks {
  uint32_t leading = 0, trailing = 0;
};
[[nodiscard]] Blanks count_blanks(std::string_view token) noexcept;
// An offset without the token's white space. A single leading space at the start of the text may come from
// `add_prefix_space`; it has no origin and is not trimmed.
[[nodiscard]] Offset trim_blanks(Offset offset, const Blanks& blanks, bool add_prefix_space, bool first) noexcept;

// [CLS] A [SEP] B [SEP], types 0 and 1.
[[nodiscard]] PostProcessor bert_post_processor(int32_t cls, int32_t sep);
// <s> A </s> </s> B </s>, all of type 0.
[[nodiscard]] PostProcessor roberta_post_processor(int32_t cls, int32_t sep);

// Reads the JSON form: BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel, a Sequence of these, or null.
[[nodiscard]] PostProcessor parse_post_processor(const Json& value, const std::string& where);

// How many tokens of each text are kept if both together may have `room`: the longer one is truncated first.
[[nodiscard]] std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t room,
                                                      bool larger_half_first = false) noexcept;

// Truncates, adds the special tokens, sets types. Throws Error (usage) if max_length has no room for the
// special tokens.
[[nodiscard]] Encoding finish(const PostProcessor& post, Tokens first, std::optional<Tokens> second,
                              const EncodeOptions& options);

}  // namespace exeunt
