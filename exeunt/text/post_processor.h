// SPDX-License-Identifier: Apache-2.0
// What is put around the tokens of one or two texts, and what must go to stay within a length.
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

// Tokens of one text, before anything is put around them. Once a word has brought them to `limit`, what follows cannot
// end up in the result and is left out. The oracle does the same, and it shows: of two texts cut so, the longer one may
// no longer be the longer.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<Offset> offsets;
  size_t limit = SIZE_MAX;
  bool cut = false;         // there was more
  bool after_word = false;  // the last token is of a word, not an added one

  void add(int32_t id, Offset offset) {
    ids.push_back(id);
    offsets.push_back(offset);
  }
  void add_added(int32_t id, Offset offset) {
    add(id, offset);
    after_word = false;
  }
  // To be asked before anything else is added: is it left out?
  [[nodiscard]] bool stopped() noexcept {
    cut |= after_word && ids.size() >= limit;
    return cut;
  }
  // The same, asked by a model before each word.
  [[nodiscard]] bool stop() noexcept {
    after_word |= !stopped();
    return cut;
  }
};

// One place in a template: the first or second text, or special tokens. Every token in it gets `type`.
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
  bool trim_offsets = false;      // byte-level families: white space is no part of a token's offsets
  bool add_prefix_space = false;  // as the post-processor says; matters to trim_offsets only
};

// White space at the ends of a token's text, in characters; Ġ stands for a blank.
struct Blanks {
  uint32_t leading = 0, trailing = 0;
};
[[nodiscard]] Blanks count_blanks(std::string_view token) noexcept;
// An offset without the token's blanks. A single leading blank at the start of the text may be one that
// `add_prefix_space` put there and stands for nothing to be trimmed.
[[nodiscard]] Offset trim_blanks(Offset offset, const Blanks& blanks, bool add_prefix_space, bool first) noexcept;

// [CLS] A [SEP] B [SEP], types 0 and 1.
[[nodiscard]] PostProcessor bert_post_processor(int32_t cls, int32_t sep);
// <s> A </s> </s> B </s>, all of type 0.
[[nodiscard]] PostProcessor roberta_post_processor(int32_t cls, int32_t sep);

// Reads the JSON form: BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel, a Sequence of these, or null.
[[nodiscard]] PostProcessor parse_post_processor(const Json& value, const std::string& where);

// How many tokens of each text stay when both together may have `room`: the longer one gives first.
[[nodiscard]] std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t room) noexcept;

// Truncates, puts the special tokens around, sets types. Throws Error (usage) if max_length has no room for the
// special tokens.
[[nodiscard]] Encoding finish(const PostProcessor& post, Tokens first, std::optional<Tokens> second,
                              const EncodeOptions& options);

}  // namespace exeunt
