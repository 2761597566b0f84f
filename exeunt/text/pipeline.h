// SPDX-License-Identifier: Apache-2.0
// What the three families share: broken UTF-8, added tokens, normalisation, truncation and special tokens. A family
// adds its model, which turns normalised text into tokens.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/utf8.h"
#include "exeunt/text/added_tokens.h"
#include "exeunt/text/post_processor.h"

namespace exeunt {

class Pipeline {
 public:
  // `where` (a file) prefixes error messages. Checks that every id in use belongs to the vocabulary or an added token.
  struct Parts {
    std::string where;
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PostProcessor post;
  };
  Pipeline(Parts parts, Vocabulary vocabulary);

  // `model(const NormalizedText& text, size_t begin, size_t end, Tokens& out)` turns bytes [begin, end) of a
  // normalised text, which hold no added token and are not empty, into tokens; it checks out.stop() before each word.
  template <class Model>
  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options, const Model& model) const {
    const size_t limit = options.max_length < 0 ? 0 : static_cast<size_t>(options.max_length);
    Tokens first = options.keep_end && !pair ? last_tokens_of(text, limit, model) : tokens_of(text, limit, model);
    std::optional<Tokens> second;
    if (pair) second = tokens_of(*pair, limit, model);
    return finish(post_, std::move(first), std::move(second), options);
  }

  [[nodiscard]] const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] const PostProcessor& post() const noexcept { return post_; }
  [[nodiscard]] const Normalizer& normalizer() const noexcept { return normalizer_; }
  [[nodiscard]] int id_limit() const noexcept;  // largest id + 1, added tokens included
  [[nodiscard]] std::string token(int32_t id) const;
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const;

 private:
  template <class Model>
  [[nodiscard]] Tokens tokens_of(std::string_view text, size_t limit, const Model& model) const {
    std::string repaired;
    if (!is_ascii(text) && find_invalid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    // The first tokens of a long text usually come from its beginning, and only that is looked at then.
    for (size_t most = first_look(limit);; most *= 4) {
      const size_t end = most < text.size() ? find_cut(normalizer_, text, most, Cut::at_edge) : text.size();
      if (end == text.size()) return tokens_in(text, limit, model);  // also of an empty text
      if (end == 0) continue;
      Sure sure;
      Tokens out = tokens_in(text.substr(0, end), limit, model, &sure);
      if (out.cut && !out.offsets.empty() && out.offsets.back().second <= sure.end) return out;
    }
  }

  // The same from the end.
  template <class Model>
  [[nodiscard]] Tokens last_tokens_of(std::string_view text, size_t limit, const Model& model) const {
    std::string repaired;
    if (!is_ascii(text) && find_invalid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    for (size_t most = first_look(limit);; most *= 4) {
      const size_t begin = most < text.size() ? find_cut(normalizer_, text, text.size() - most, Cut::at_edge) : 0;
      if (begin == 0 && most < text.size()) continue;
      const auto first = static_cast<uint32_t>(count_code_points(text.substr(0, begin)));
      Sure sure;
      Tokens out = tokens_in(text.substr(begin), SIZE_MAX, model, &sure, first);
      if (begin == 0) return out;
      const auto kept =
          std::ranges::find_if(out.offsets, [&](const Offset& offset) { return offset.first >= sure.begin; });
      out.drop_first(static_cast<size_t>(kept - out.offsets.begin()));
      if (out.ids.size() >= limit) return out;
    }
  }

  // Bytes of a long text that are looked at first.
  [[nodiscard]] static size_t first_look(size_t limit) noexcept { return std::max(size_t{1} << 15, 64 * limit); }

  // Code points of a text that was cut between which it has the tokens of the whole: what is cut off cannot change
  // words, added tokens or white space that far away; words begin anew behind white space.
  struct Sure {
    uint32_t begin = UINT32_MAX, end = UINT32_MAX;
  };

  // `first`: the code points before `text`.
  template <class Model>
  [[nodiscard]] Tokens tokens_in(std::string_view text, size_t limit, const Model& model, Sure* sure = nullptr,
                                 uint32_t first = 0) const {
    Tokens out;
    out.limit = limit;
    out.ids.reserve(std::min(limit, text.size() / 4 + 8));
    out.offsets.reserve(std::min(limit, text.size() / 4 + 8));
    std::vector<AddedTokens::Part> parts, inner;
    added_.split_raw(text, parts);
    const size_t sure_bytes = sure == nullptr ? text.size() : settled_bytes(text);
    if (sure != nullptr) sure->end = first + static_cast<uint32_t>(count_code_points(text.substr(0, sure_bytes)));
    Place place{text, 0, first};
    size_t done = 0;  // normalised bytes
    for (const auto& part : parts) {
      if (out.stopped()) break;
      const uint32_t begun = place.code_points(part.begin);
      if (part.id >= 0) {
        const Offset offset{begun, place.code_points(part.end)};
        out.add_added(part.id, trimmed(offset, text.substr(part.begin, part.end - part.begin), out.ids.empty()));
        continue;
      }
      const NormalizedText normal = normalize_long(normalizer_, text.substr(part.begin, part.end - part.begin), begun);
      if (part.end > sure_bytes) {
        const size_t bytes = settled_bytes(normal.text());
        sure->end = std::min(sure->end, bytes == 0 ? begun : normal.origin(bytes - 1).second);
      }
      if (sure != nullptr && sure->begin == UINT32_MAX) {
        const size_t space = normal.text().find(' ', std::max(done, reach()) - done);
        if (space != std::string_view::npos) sure->begin = normal.origin(space).first + 1;
      }
      done += normal.size();
      inner.clear();
      added_.split_normalized(normal.text(), inner);
      for (const auto& [begin, end, id] : inner) {
        if (out.stopped()) break;
        if (id >= 0) {
          const std::string_view found = normal.text().substr(begin, end - begin);
          out.add_added(id, trimmed(normal.origin(begin, end), found, out.ids.empty()));
        } else {
          const size_t before = out.ids.size();
          model(normal, begin, end, out);
          if (post_.trim_offsets) trim(out, before);
        }
      }
    }
    return out;
  }

  // Bytes at the beginning of `text` in which what follows it changes no word and no added token.
  [[nodiscard]] size_t settled_bytes(std::string_view text) const noexcept;
  // Bytes: models look less far than 1024 to find where a word ends.
  [[nodiscard]] size_t reach() const noexcept { return added_.longest() + 1024; }

  // With trim_offsets, offsets exclude white space at either end of a token: of the matched text for an added token, of
  // the token's own text for all others.
  [[nodiscard]] Offset trimmed(Offset offset, std::string_view found, bool first) const;
  void trim(Tokens& tokens, size_t from) const;

  // Code points before a byte, counted from the previous call on.
  struct Place {
    std::string_view text;
    size_t byte = 0;
    uint32_t count = 0;
    uint32_t code_points(size_t up_to) noexcept;
  };

  Vocabulary vocabulary_;
  Normalizer normalizer_;
  PostProcessor post_;
  AddedTokens added_;
  std::vector<Blanks> blanks_;  // by id; only with trim_offsets
};

// The tokenizer of a family: `words.add(text, begin, end, scratch, out)` is its model, called as Pipeline::encode says
// with one Words::Scratch per call of encode.
template <class Words>
class PipelineTokenizer : public Tokenizer {
 public:
  PipelineTokenizer(std::string_view family, Pipeline pipeline, Words words)
      : family_(family), pipeline_(std::move(pipeline)), words_(std::move(words)) {}

  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options) const override {
    typename Words::Scratch scratch;
    return pipeline_.encode(text, pair, options,
                            [&](const NormalizedText& source, size_t begin, size_t end, Tokens& out) {
                              words_.add(source, begin, end, scratch, out);
                            });
  }
  [[nodiscard]] int vocabulary() const noexcept override { return pipeline_.id_limit(); }
  [[nodiscard]] std::string_view family() const noexcept override { return family_; }
  [[nodiscard]] std::string token(int32_t id) const override { return pipeline_.token(id); }
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const override { return pipeline_.id(token); }

 private:
  std::string_view family_;
  Pipeline pipeline_;
  Words words_;
};

}  // namespace exeunt
