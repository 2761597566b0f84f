// SPDX-License-Identifier: Apache-2.0
// The WordPiece family: BERT's vocab.txt, and tokenizer.json with a WordPiece model.
#include "exeunt/text/wordpiece.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/tokenizer_json.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

// Adjacent characters of one kind form a word; `alone` is a word by itself, `space` belongs to none.
enum class WordKind : uint8_t { space, word, other, alone, decode };

WordKind kind_of(WordSplit split, char32_t c) noexcept {
  if (split == WordSplit::none) return WordKind::word;
  if (unicode::is_space(c)) return WordKind::space;
  if (split == WordSplit::bert) return unicode::is_bert_punctuation(c) ? WordKind::alone : WordKind::word;
  if (split == WordSplit::whitespace) return unicode::is_word(c) ? WordKind::word : WordKind::other;
  return WordKind::word;
}

// Kinds of single bytes, computed once; bytes above ASCII have to be decoded.
std::array<WordKind, 256> byte_kinds(WordSplit split) noexcept {
  std::array<WordKind, 256> kinds;
  for (size_t c = 0; c < kinds.size(); ++c) {
    kinds[c] = c < 0x80 ? kind_of(split, static_cast<char32_t>(c)) : WordKind::decode;
  }
  return kinds;
}

const std::array<WordKind, 256>& kinds_for(WordSplit split) noexcept {
  static const std::array<std::array<WordKind, 256>, 4> kKinds = {
      byte_kinds(WordSplit::bert), byte_kinds(WordSplit::whitespace), byte_kinds(WordSplit::whitespace_split),
      byte_kinds(WordSplit::none)};
  return kKinds[static_cast<size_t>(split)];
}

constexpr size_t kShortWord = 16;  // bytes that fit a key

template <class Word>
uint64_t load(const char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

WordSplit parse_word_split(const Json& value, const std::string& where) {
  if (value.is_null()) return WordSplit::none;
  JsonObject object(value, where);
  const std::string type = object.choice("type", {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"});
  object.finish();
  if (type == "BertPreTokenizer") return WordSplit::bert;
  return type == "Whitespace" ? WordSplit::whitespace : WordSplit::whitespace_split;
}

WordRange next_word(WordSplit split, std::string_view text, size_t at) noexcept {
  const auto& kinds = kinds_for(split);
  struct Next {
    WordKind kind;
    size_t bytes;
  };
  const auto look = [&](size_t place) -> Next {
    const WordKind kind = kinds[static_cast<uint8_t>(text[place])];
    if (kind != WordKind::decode) return {kind, 1};
    const Decoded next = decode_utf8(text.substr(place));
    return {kind_of(split, next.code_point), next.bytes};
  };
  Next next{WordKind::space, 0};
  while (at < text.size() && (next = look(at)).kind == WordKind::space) at += next.bytes;
  const size_t begin = at;
  if (begin == text.size()) return {begin, begin};
  const WordKind kind = next.kind;
  at += next.bytes;
  if (kind == WordKind::alone) return {begin, at};
  while (at < text.size() && (next = look(at)).kind == kind) at += next.bytes;
  return {begin, at};
}

// Head and tail of a word may overlap, so that nothing is read past its end.
WordPieceModel::Key WordPieceModel::key_of(std::string_view word) noexcept {
  const char* head = word.data();
  const char* tail = head + word.size();
  if (word.size() > 8) return {load<uint64_t>(head), load<uint64_t>(tail - 8)};
  if (word.size() >= 4) return {load<uint32_t>(head) | load<uint32_t>(tail - 4) << 32, 0};
  if (word.empty()) return {};
  return {load<uint8_t>(head) | load<uint8_t>(head + word.size() / 2) << 8 | load<uint8_t>(tail - 1) << 16, 0};
}

size_t WordPieceModel::slot_of(Key key, size_t size) const noexcept {
  return mix_bits(mix_bits((key.low + size) ^ secret_[0]) ^ key.high ^ secret_[1]) >> shift_;
}

WordPieceModel::WordPieceModel(const Vocabulary& vocabulary, const Options& options)
    : unknown_(options.unknown), max_chars_(options.max_chars) {
  std::vector<std::string_view> starts, continuations;
  for (int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string_view token = vocabulary.token(id);
    starts.push_back(token);
    start_ids_.push_back(id);
    if (!token.starts_with(options.prefix)) continue;
    continuations.push_back(token.substr(options.prefix.size()));
    continuation_ids_.push_back(id);
  }
  starts_ = ByteTrie(starts);
  continuations_ = ByteTrie(continuations);

  slots_.assign(std::bit_ceil(starts.size() * 2 + 1), Slot{});
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    // A word of too many code points is unknown even if it is a token.
    if (starts[i].empty() || starts[i].size() > kShortWord || count_code_points(starts[i]) > max_chars_) continue;
    const Key key = key_of(starts[i]);
    size_t slot = slot_of(key, starts[i].size());
    while (slots_[slot].size != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {key, static_cast<uint32_t>(starts[i].size()), start_ids_[i]};
  }
}

int32_t WordPieceModel::whole(std::string_view word) const noexcept {
  if (word.size() > kShortWord) return -1;
  const Key key = key_of(word);
  size_t slot = slot_of(key, word.size());
  while (slots_[slot].size != 0) {
    if (slots_[slot].key == key && slots_[slot].size == word.size()) return slots_[slot].id;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return -1;
}

bool WordPieceModel::longest(const ByteTrie& trie, std::string_view word, WordToken& piece) const noexcept {
  int32_t found = -1;
  uint32_t node = ByteTrie::kRoot;
  for (size_t at = piece.begin; at < word.size() && trie.step(node, static_cast<uint8_t>(word[at]));) {
    ++at;
    if (const int32_t value = trie.value(node); value >= 0) {
      found = value;
      piece.end = static_cast<uint32_t>(at);
    }
  }
  if (found < 0) return false;
  piece.id = (&trie == &starts_ ? start_ids_ : continuation_ids_)[static_cast<size_t>(found)];
  return true;
}

void WordPieceModel::cut(std::string_view word, std::vector<WordToken>& pieces) const {
  pieces.clear();
  const WordToken whole_word{unknown_, 0, static_cast<uint32_t>(word.size())};
  bool known = word.size() <= max_chars_ || count_code_points(word) <= max_chars_;
  WordToken piece{0, 0, 0};
  while (known && piece.begin < word.size()) {
    known = longest(piece.begin == 0 ? starts_ : continuations_, word, piece);
    pieces.push_back(piece);
    piece.begin = piece.end;
  }
  if (!known) pieces.assign(1, whole_word);
}

namespace {

struct WordPieceWords {
  using Scratch = std::vector<WordToken>;
  WordPieceModel model;
  WordSplit split;

  void add(const NormalizedText& source, size_t begin, size_t end, Scratch& pieces, Tokens& out) const {
    const std::string_view text = source.text().substr(0, end);
    for (size_t at = begin;;) {
      const WordRange range = next_word(split, text, at);
      if (range.begin == range.end || out.stop()) return;
      at = range.end;
      const std::string_view word = text.substr(range.begin, range.end - range.begin);
      if (const int32_t id = model.whole(word); id >= 0) {
        out.add(id, source.origin(range.begin, range.end));
        continue;
      }
      model.cut(word, pieces);
      for (const auto& piece : pieces) {
        out.add(piece.id, source.origin(range.begin + piece.begin, range.begin + piece.end));
      }
    }
  }
};

std::unique_ptr<const Tokenizer> make(Pipeline::Parts parts, Vocabulary vocabulary,
                                      const WordPieceModel::Options& options, WordSplit split) {
  WordPieceModel model(vocabulary, options);
  return std::make_unique<PipelineTokenizer<WordPieceWords>>(
      "wordpiece", Pipeline(std::move(parts), std::move(vocabulary)), WordPieceWords{std::move(model), split});
}

std::string_view trim_end(std::string_view line) {
  while (!line.empty()) {
    const size_t at = last_code_point(line);
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
    if (!bracketed && std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; })) return true;
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
    if (vocabulary.id(content)) added.add({.content = content, .normalized = false, .special = true});
  }
  for (const AddedToken& token : config.added) added.put(token);
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
  return make(std::move(json.parts), std::move(vocabulary), options, split);
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
  return make(std::move(parts), std::move(vocabulary), options, WordSplit::bert);
}

}  // namespace exeunt
