// SPDX-License-Identifier: Apache-2.0
// The unigram family: ALBERT's spiece.model, and tokenizer.json with a Unigram model.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/families.h"
#include "exeunt/text/metaspace.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/spiece_model.h"
#include "exeunt/text/unigram.h"

namespace exeunt {
namespace {

class UnigramTokenizer : public Tokenizer {
 public:
  UnigramTokenizer(Pipeline pipeline, UnigramModel model, Metaspace metaspace)
      : pipeline_(std::move(pipeline)), model_(std::move(model)), metaspace_(std::move(metaspace)) {}

  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options) const override {
    UnigramModel::Scratch scratch;
    MarkedWord word;
    const auto add_words = [&](const Metaspace& metaspace, const NormalizedText& source, size_t begin, size_t end,
                               Tokens& out) {
      for (MetaspaceWords words(metaspace, source, begin, end); words.next(word) && !out.stop();) {
        model_.encode(word.text, scratch);
        for (const WordToken& token : scratch.tokens) out.add(token.id, word.origin(source, token.begin, token.end));
      }
    };
    return pipeline_.encode(text, pair, options,
                            [&](const NormalizedText& source, size_t begin, size_t end, Tokens& out) {
                              if (metaspace_.split || metaspace_.mark.empty()) {
                                add_words(metaspace_, source, begin, end, out);
                              } else {
                                add_unsplit(source, begin, end, add_words, out);
                              }
                            });
  }
  [[nodiscard]] int vocabulary() const noexcept override { return pipeline_.id_limit(); }
  [[nodiscard]] std::string_view family() const noexcept override { return "unigram"; }
  [[nodiscard]] std::string token(int32_t id) const override { return pipeline_.token(id); }
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const override { return pipeline_.id(token); }

 private:
  // Marks are inserted first; the result has no spaces left and is one word, or one per white space.
  template <class AddWords>
  void add_unsplit(const NormalizedText& source, size_t begin, size_t end, const AddWords& add_words,
                   Tokens& out) const {
    const Metaspace plain{.whitespace_split = metaspace_.whitespace_split, .mark = ""};
    MarkedWord chunk;
    for (MetaspaceWords chunks(plain, source, begin, end); chunks.next(chunk);) {
      const NormalizedText marked = mark_blanks(metaspace_, source, chunk.rest, chunk.rest + chunk.text.size());
      add_words(Metaspace{.mark = ""}, marked, 0, marked.size(), out);
    }
  }

  Pipeline pipeline_;
  UnigramModel model_;
  Metaspace metaspace_;
};

std::unique_ptr<const Tokenizer> make(Pipeline::Parts parts, const UnigramModel::Vocabulary& pieces,
                                      const UnigramModel::Options& options, Metaspace metaspace) {
  std::vector<std::pair<std::string, int32_t>> ids;
  ids.reserve(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id) ids.emplace_back(pieces[id].first, static_cast<int32_t>(id));
  Vocabulary vocabulary(ids, parts.where);
  return std::make_unique<UnigramTokenizer>(Pipeline(std::move(parts), std::move(vocabulary)),
                                            UnigramModel(pieces, options), std::move(metaspace));
}

UnigramModel::Vocabulary read_pieces(const Json& list, const std::string& where) {
  if (!list.is_array() || list.empty() || list.size() > static_cast<size_t>(kMaxTokenId)) {
    throw_bad_file(where, "got {}, want a list of 1 to {} pieces with scores", glimpse(list), kMaxTokenId);
  }
  UnigramModel::Vocabulary pieces;
  pieces.reserve(list.size());
  for (size_t id = 0; id < list.size(); ++id) {
    const Json& entry = list[id];
    const bool fits = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!fits) throw_bad_file(where, "piece {}: got {}, want a piece and its score", id, glimpse(entry));
    const auto& text = entry[0].get_ref<const std::string&>();
    const double score = entry[1].get<double>();
    if (text.size() > kMaxPieceBytes) {
      throw_bad_file(where, "piece {}: got {} bytes, want at most {}", id, text.size(), kMaxPieceBytes);
    }
    if (!std::isfinite(score)) throw_bad_file(where, "piece {}: '{}' has the score {}", id, text, score);
    pieces.emplace_back(text, score);
  }
  return pieces;
}

// As in transformers 5 for ALBERT.
Normalizer albert_normalizer(const SpieceModel& model, const TokenizerConfig& config, const std::string& where) {
  Normalizer steps;
  steps.reserve(5);
  steps.emplace_back(Replace{"``", "\"", false});
  steps.emplace_back(Replace{"''", "\"", false});
  if (!config.keep_accents.value_or(false)) {
    steps.emplace_back(NormalForm::nfkd);
    steps.emplace_back(StripAccents{});
  }
  if (config.do_lower_case.value_or(true)) steps.emplace_back(Lowercase{});
  if (!model.charsmap.empty()) steps.emplace_back(std::make_shared<const Charsmap>(model.charsmap, where));
  return steps;
}

// Control pieces, the named special tokens and user-defined pieces are matched as a whole in the text before the model
// sees it, as in transformers 5 (docs/decisions/0009).
std::vector<AddedToken> albert_added(const SpieceModel& model, const TokenizerConfig& config) {
  const std::string named[] = {config.cls_token.value_or("[CLS]"), config.sep_token.value_or("[SEP]"),
                               config.unk_token.value_or("<unk>"), config.pad_token.value_or("<pad>"),
                               config.mask_token.value_or("[MASK]")};
  AddedTokenList added;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const bool is_named = std::find(std::begin(named), std::end(named), piece.text) != std::end(named);
    const bool special = is_named || piece.kind == SentencePiece::Kind::control;
    if (!special && piece.kind != SentencePiece::Kind::user_defined) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = static_cast<int32_t>(id);
    token.normalized = false;
    token.special = special;
    added.add(std::move(token));
  }
  // Settings in the configuration take precedence.
  for (const AddedToken& token : config.added) {
    AddedToken* const same = added.find(token.content);
    if (same == nullptr) {
      added.add(token);
    } else {
      const auto id = same->id;
      *same = token;
      if (!same->id) same->id = id;
    }
  }
  return added.take();
}

int32_t find_piece(const SpieceModel& model, const std::string& text, const std::string& where) {
  const auto found = std::find_if(model.pieces.begin(), model.pieces.end(),
                                  [&](const SentencePiece& piece) { return piece.text == text; });
  if (found == model.pieces.end()) throw_bad_file(where, "the model has no piece '{}', a special token", text);
  return static_cast<int32_t>(found - model.pieces.begin());
}

}  // namespace

std::unique_ptr<const Tokenizer> make_unigram_tokenizer(TokenizerJson json) {
  const std::string where = json.where + ": model";
  JsonObject model(json.model, where);
  const UnigramModel::Vocabulary pieces = read_pieces(model.get("vocab"), where + ": vocab");
  UnigramModel::Options options;
  options.unknown = static_cast<int32_t>(model.integer("unk_id", 0, static_cast<int64_t>(pieces.size()) - 1));
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  model.finish();
  Metaspace metaspace = parse_metaspace(json.pre_tokenizer, json.where + ": pre_tokenizer");
  return make(std::move(json.parts), pieces, options, std::move(metaspace));
}

std::unique_ptr<const Tokenizer> make_unigram_tokenizer(const SpieceModel& model, const TokenizerConfig& config,
                                                        const std::string& where) {
  Pipeline::Parts parts;
  parts.where = where;
  parts.normalizer = albert_normalizer(model, config, where);
  parts.added = albert_added(model, config);
  parts.post = bert_post_processor(find_piece(model, config.cls_token.value_or("[CLS]"), where),
                                   find_piece(model, config.sep_token.value_or("[SEP]"), where));
  UnigramModel::Vocabulary pieces;
  pieces.reserve(model.pieces.size());
  for (const SentencePiece& piece : model.pieces) pieces.emplace_back(piece.text, piece.score);
  return make(std::move(parts), pieces, {.unknown = model.unknown}, Metaspace{.whitespace_split = true});
}

std::unique_ptr<const Tokenizer> read_unigram_tokenizer(const std::filesystem::path& spiece_model,
                                                        const TokenizerConfig& config, SpieceReader reader) {
  const std::filesystem::path folder = spiece_model.parent_path(), name = spiece_model.filename();
  const std::string where = spiece_model.string();
  const SpieceModel model = parse_spiece_model(MappedFile::open(ReadPath::in(folder, name))->bytes(), where);
  const ReadPath vocab = ReadPath::in(folder, std::filesystem::path(name).replace_extension(".vocab"));
  if (path_exists(vocab.path())) check_spiece_vocab(model, read_text(vocab), vocab.string());
  return reader == SpieceReader::spiece ? make_spiece_tokenizer(model, config, where)
                                        : make_unigram_tokenizer(model, config, where);
}

}  // namespace exeunt
