// SPDX-License-Identifier: Apache-2.0
// The WordPiece family: BERT's and ElasticBERT's vocab.txt, and tokenizer.json with a WordPiece model.
#include <algorithm>
#include <array>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/text/families.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/unicode.h"
#include "exeunt/text/word_split.h"
#include "exeunt/text/wordpiece.h"

namespace exeunt {
namespace {

class WordPieceTokenizer : public Tokenizer {
 public:
  WordPieceTokenizer(Pipeline pipeline, const WordPieceModel::Options& options, WordSplit split)
      : pipeline_(std::move(pipeline)), model_(pipeline_.vocabulary(), options), split_(split) {}

  [[nodiscard]] Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                const EncodeOptions& options) const override {
    std::vector<WordPieceModel::Piece> pieces;
    return pipeline_.encode(text, pair, options,
                            [&](const NormalizedText& source, size_t begin, size_t end, Tokens& out) {
                              add_words(source, begin, end, pieces, out);
                            });
  }
  [[nodiscard]] int vocabulary() const noexcept override { return pipeline_.id_limit(); }
  [[nodiscard]] std::string_view family() const noexcept override { return "wordpiece"; }
  [[nodiscard]] std::string token(int32_t id) const override { return pipeline_.token(id); }
  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const override { return pipeline_.id(token); }

 private:
  void add_words(const NormalizedText& source, size_t begin, size_t end, std::vector<WordPieceModel::Piece>& pieces,
                 Tokens& out) const {
    const std::string_view text = source.text().substr(0, end);
    for (size_t at = begin;;) {
      const WordRange range = next_word(split_, text, at);
      if (range.begin == range.end || out.stop()) return;
      at = range.end;
      const std::string_view word = text.substr(range.begin, range.end - range.begin);
      if (const int32_t id = model_.whole(word); id >= 0) {
        out.add(id, source.origin(range.begin, range.end));
        continue;
      }
      model_.cut(word, pieces);
      for (const auto& piece : pieces) {
        out.add(piece.id, source.origin(range.begin + piece.begin, range.begin + piece.end));
      }
    }
  }

  Pipeline pipeline_;
  WordPieceModel model_;
  WordSplit split_;
};

std::string_view trim_end(std::string_view line) {
  while (!line.empty()) {
    size_t at = line.size() - 1;
    while (at > 0 && (static_cast<uint8_t>(line[at]) & 0xC0U) == 0x80U) --at;
    if (!unicode::is_space(decode_utf8(line.substr(at)).code_point)) break;
    line = line.substr(0, at);
  }
  return line;
}

// One token per line, its id the line's number from 0. White space at the end of a line is not part of the token; a
// line without a token leaves its id unused.
std::vector<std::pair<std::string, int32_t>> read_vocab_txt(const ReadPath& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  std::vector<std::pair<std::string, int32_t>> tokens;
  int32_t line_number = 0;
  for (size_t at = 0; at < text.size(); ++line_number) {
    if (line_number > kMaxTokenId) throw_bad_file(path.string(), "got more than {} lines", kMaxTokenId + 1);
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (const auto broken = find_invalid_utf8(line)) {
      throw_bad_file(fmt::format("{}: line {} column {}", path.string(), line_number + 1, *broken + 1),
                     "got byte 0x{:02X}, want UTF-8", static_cast<unsigned>(static_cast<uint8_t>(line[*broken])));
    }
    if (const std::string_view token = trim_end(line); !token.empty()) tokens.emplace_back(token, line_number);
    at = end + 1;
  }
  if (tokens.empty()) throw_bad_file(path.string(), "got no token, want one per line");
  return tokens;
}

// If the configuration does not say, the vocabulary decides: one with capitals belongs to a cased model.
bool has_capitals(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    const std::string_view token = vocabulary.token(id);
    const bool bracketed = token.starts_with('[') && token.ends_with(']');
    if (!bracketed && std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) return true;
  }
  return false;
}

int32_t find_special(const Vocabulary& vocabulary, const std::string& token, const std::string& where) {
  const auto id = vocabulary.id(token);
  if (!id) {
    throw Error(Code::bad_file, fmt::format("{}: the special token '{}' is missing", where, token),
                "name another one in tokenizer_config.json, or check that the file is complete");
  }
  return *id;
}

// The named special tokens as transformers adds them, then those of the configuration, which may change their settings.
std::vector<AddedToken> bert_added(const std::vector<std::string>& named, const Vocabulary& vocabulary,
                                   const TokenizerConfig& config) {
  AddedTokenList added;
  for (const std::string& content : named) {
    if (!vocabulary.id(content)) continue;
    AddedToken token;
    token.content = content;
    token.normalized = false;
    token.special = true;
    added.add(std::move(token));
  }
  for (const AddedToken& token : config.added) {
    AddedToken* const same = added.find(token.content);
    same != nullptr ? void(*same = token) : added.add(token);
  }
  return added.take();
}

}  // namespace

std::unique_ptr<const Tokenizer> make_wordpiece_tokenizer(TokenizerJson json) {
  const std::string where = json.where + ": model";
  JsonObject model(json.model, where);
  Vocabulary vocabulary(read_token_ids(model.get("vocab"), where + ": vocab"), where + ": vocab");
  WordPieceModel::Options options;
  options.unknown = find_special(vocabulary, model.string("unk_token"), where + ": vocab");
  options.prefix = model.string_or("continuing_subword_prefix", "##");
  options.max_chars = static_cast<size_t>(model.integer_or("max_input_chars_per_word", 0, INT32_MAX, 100));
  model.finish();
  const WordSplit split = parse_word_split(json.pre_tokenizer, json.where + ": pre_tokenizer");
  return std::make_unique<WordPieceTokenizer>(Pipeline(std::move(json.parts), std::move(vocabulary)), options, split);
}

std::unique_ptr<const Tokenizer> read_wordpiece_tokenizer(const ReadPath& vocab_txt, const TokenizerConfig& config) {
  const std::string where = vocab_txt.string();
  Vocabulary vocabulary(read_vocab_txt(vocab_txt), where);
  const std::string cls = config.cls_token.value_or("[CLS]");
  const std::string sep = config.sep_token.value_or("[SEP]");
  const std::string unk = config.unk_token.value_or("[UNK]");
  Pipeline::Parts parts;
  parts.where = where;
  parts.post = bert_post_processor(find_special(vocabulary, cls, where), find_special(vocabulary, sep, where));
  BertCleanup cleanup;
  cleanup.lowercase = config.do_lower_case.value_or(!has_capitals(vocabulary));
  cleanup.strip_accents = config.strip_accents.value_or(cleanup.lowercase);
  cleanup.chinese_chars = config.tokenize_chinese_chars.value_or(true);
  parts.normalizer = {cleanup};
  parts.added = bert_added({unk, sep, config.pad_token.value_or("[PAD]"), cls, config.mask_token.value_or("[MASK]")},
                           vocabulary, config);
  WordPieceModel::Options options;
  options.unknown = find_special(vocabulary, unk, where);
  return std::make_unique<WordPieceTokenizer>(Pipeline(std::move(parts), std::move(vocabulary)), options,
                                              WordSplit::bert);
}

}  // namespace exeunt
