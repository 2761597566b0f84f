// SPDX-License-Identifier: Apache-2.0
// ALBERT's spiece.model as ALBERT was pretrained with it, and as the original early-exit systems ran it: the slow
// tokenizer of transformers up to 4.39 around SentencePiece itself.
#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/families.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

class SpieceTokenizer : public Tokenizer {
 public:
  SpieceTokenizer(Pipeline pipeline, SentencePieceModel model)
      : pipeline_(std::move(pipeline)), model_(std::move(model)) {}

  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options) const override {
    return pipeline_.encode(text, pair, options,
                            [&](const NormalizedText& source, size_t begin, size_t end, Tokens& out) {
                              NormalizedText part(source.first());
                              part.append(source, begin, end);
                              add_pieces(model_.normalize(part), out);
                            });
  }
  [[nodiscard]] int vocabulary() const noexcept override { return pipeline_.id_limit(); }
  [[nodiscard]] std::string_view family() const noexcept override { return "unigram"; }
  [[nodiscard]] std::string token(int32_t id) const override { return pipeline_.token(id); }
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const override { return pipeline_.id(token); }

 private:
  void add_pieces(const NormalizedText& text, Tokens& out) const {
    for (const WordToken& piece : model_.encode(text.text())) {
      if (ends_in_digit_and_comma(text.text().substr(piece.begin, piece.end - piece.begin))) {
        add_without_comma(text, piece, out);
      } else {
        out.add(piece.id, text.origin(piece.begin, piece.end));
      }
    }
  }

  [[nodiscard]] static bool ends_in_digit_and_comma(std::string_view piece) noexcept {
    if (piece.size() < 2 || piece.back() != ',') return false;
    size_t at = piece.size() - 2;
    while (at > 0 && (static_cast<uint8_t>(piece[at]) & 0xC0U) == 0x80U) --at;
    return unicode::is_number(decode_utf8(piece.substr(at)).code_point);
  }

  // A comma does not stay in a piece after a digit (Google's ALBERT, encode_pieces): what is before it is split anew,
  // as a text of its own; a mark that this puts before it is taken off again, whatever piece is left then.
  void add_without_comma(const NormalizedText& text, const WordToken& piece, Tokens& out) const {
    const std::string_view whole = text.text().substr(piece.begin, piece.end - piece.begin);
    const bool marked = whole.starts_with(kSpaceMark);
    NormalizedText rest(text.first());
    for (uint32_t at = piece.begin; at + 1 < piece.end;) {
      const bool mark = text.text().substr(at).starts_with(kSpaceMark);
      const auto bytes = static_cast<uint32_t>(decode_utf8(text.text().substr(at)).bytes);
      if (!mark) rest.append(text, at, at + bytes);
      at += bytes;
    }
    const NormalizedText anew = model_.normalize(rest);
    bool first = true;
    for (const WordToken& token : model_.encode(anew.text())) {
      const bool unmark = first && !marked && anew.text().substr(token.begin).starts_with(kSpaceMark);
      first = false;
      const auto begin = token.begin + static_cast<uint32_t>(unmark ? kSpaceMark.size() : 0);
      if (begin == token.end) continue;
      const int32_t id = unmark ? model_.id(anew.text().substr(begin, token.end - begin)) : token.id;
      out.add(id, anew.origin(begin, token.end));
    }
    out.add(model_.id(","), text.origin(piece.end - 1, piece.end));
  }

  Pipeline pipeline_;
  SentencePieceModel model_;
};

Normalizer slow_normalizer(const TokenizerConfig& config) {
  Normalizer steps;
  steps.reserve(6);
  if (config.remove_space.value_or(true)) steps.emplace_back(JoinWords{});
  steps.emplace_back(Replace{"``", "\"", false});
  steps.emplace_back(Replace{"''", "\"", false});
  if (!config.keep_accents.value_or(false)) {
    steps.emplace_back(NormalForm::nfkd);
    steps.emplace_back(StripCombining{});
  }
  if (config.do_lower_case.value_or(true)) steps.emplace_back(Lowercase{});
  return steps;
}

}  // namespace

std::unique_ptr<const Tokenizer> make_spiece_tokenizer(const SpieceModel& model, const TokenizerConfig& config,
                                                       const std::string& where) {
  if (model.byte_fallback) {
    throw Error(Code::bad_file, fmt::format("{}: the model falls back to bytes, which ALBERT's does not", where),
                "only models like ALBERT's are supported in spiece.model");
  }
  const auto find = [&](const std::optional<std::string>& named, const char* usual) {
    const std::string text = named.value_or(usual);
    const auto found = std::find_if(model.pieces.begin(), model.pieces.end(),
                                    [&](const SentencePiece& piece) { return piece.text == text; });
    if (found == model.pieces.end()) throw_bad_file(where, "the model has no piece '{}', a special token", text);
    return static_cast<int32_t>(found - model.pieces.begin());
  };
  Pipeline::Parts parts;
  parts.where = where;
  parts.normalizer = slow_normalizer(config);
  parts.post = bert_post_processor(find(config.cls_token, "[CLS]"), find(config.sep_token, "[SEP]"));
  parts.post.larger_half_first = true;
  // Special tokens alone are matched in the text.
  const std::pair<const std::optional<std::string>&, const char*> named[] = {{config.cls_token, "[CLS]"},
                                                                             {config.sep_token, "[SEP]"},
                                                                             {config.unk_token, "<unk>"},
                                                                             {config.pad_token, "<pad>"},
                                                                             {config.mask_token, "[MASK]"}};
  AddedTokenList all;
  for (const auto& [token, usual] : named) {
    AddedToken added;
    added.content = token.value_or(usual);
    added.id = find(token, usual);
    added.normalized = false;
    added.special = true;
    all.add(std::move(added));
  }
  for (const AddedToken& token : config.added) all.add(token);
  parts.added = all.take();
  std::vector<std::pair<std::string, int32_t>> ids;
  ids.reserve(model.pieces.size());
  for (const SentencePiece& piece : model.pieces) ids.emplace_back(piece.text, static_cast<int32_t>(ids.size()));
  Vocabulary vocabulary(ids, where);
  return std::make_unique<SpieceTokenizer>(Pipeline(std::move(parts), std::move(vocabulary)),
                                           SentencePieceModel(model, where));
}

}  // namespace exeunt
