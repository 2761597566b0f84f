// SPDX-License-Identifier: Apache-2.0
// The unigram family: ALBERT's spiece.model, and tokenizer.json with a Unigram model.
#include "exeunt/text/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/tokenizer_json.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

void parse_one(const Json& value, const std::string& where, Metaspace& out) {
  JsonObject object(value, where);
  const std::string type = object.choice("type", {"Metaspace", "WhitespaceSplit"});
  if (type == "WhitespaceSplit") {
    out.whitespace_split = true;
    object.finish();
    return;
  }
  out.mark = object.string("replacement");
  if (count_code_points(out.mark) != 1) object.fail("replacement", '\'' + out.mark + '\'', "one character");
  object.ignore("str_rep");
  out.split = object.boolean_or("split", true);
  const bool has_scheme = object.has("prepend_scheme");
  const std::string scheme = has_scheme ? object.choice("prepend_scheme", {"always", "first", "never"}) : "always";
  out.prepend = scheme == "always"  ? Metaspace::Prepend::always
                : scheme == "first" ? Metaspace::Prepend::first
                                    : Metaspace::Prepend::never;
  // Files of old versions have only this flag; newer ones must not contradict it.
  if (!object.boolean_or("add_prefix_space", true)) {
    if (has_scheme && scheme != "never") object.fail("prepend_scheme", scheme, "'never', as add_prefix_space is false");
    out.prepend = Metaspace::Prepend::never;
  }
  object.finish();
}

}  // namespace

Metaspace parse_metaspace(const Json& pre_tokenizer, const std::string& where) {
  Metaspace out;
  out.mark.clear();
  if (pre_tokenizer.is_null()) return out;
  JsonObject object(pre_tokenizer, where);
  if (object.choice("type", {"Sequence", "Metaspace", "WhitespaceSplit"}) != "Sequence") {
    parse_one(pre_tokenizer, where, out);
    return out;
  }
  const Json& list = object.get("pretokenizers");
  if (!list.is_array()) object.fail("pretokenizers", glimpse(list), "a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}: pretokenizers[{}]", where, i);
    if (!out.mark.empty()) throw_bad_file(place, "got a pre-tokenizer after Metaspace, want Metaspace last");
    parse_one(list[i], place, out);
  }
  object.finish();
  return out;
}

bool MetaspaceWords::next_chunk() {
  const std::string_view text = source_.text();
  const auto skip = [&](size_t at, bool spaces) {
    while (at < end_) {
      const Decoded c = decode_utf8(text.substr(at));
      if (unicode::is_space(c.code_point) != spaces) break;
      at += c.bytes;
    }
    return at;
  };
  if (metaspace_.whitespace_split) at_ = skip(at_, true);
  if (at_ == end_) return false;
  chunk_end_ = metaspace_.whitespace_split ? skip(at_, false) : end_;
  using Scheme = Metaspace::Prepend;
  const bool wanted =
      metaspace_.prepend == Scheme::always || (metaspace_.prepend == Scheme::first && source_.origin(at_).first == 0);
  put_mark_ = wanted && !metaspace_.mark.empty() && !at_mark(at_);
  return true;
}

bool MetaspaceWords::next(MarkedWord& word) {
  if (at_ == chunk_end_ && !next_chunk()) return false;
  const std::string_view text = source_.text();
  const bool marks = !metaspace_.mark.empty();
  word.first = word.rest = at_;
  word.mark = 0;
  if (put_mark_) {
    word.mark = metaspace_.mark.size();
    put_mark_ = false;
  } else if (marks && at_mark(at_)) {
    word.mark = metaspace_.mark.size();
    word.rest += text[at_] == ' ' ? 1 : word.mark;
  }
  at_ = word.rest;
  while (at_ < chunk_end_ && !(marks && at_mark(at_))) ++at_;
  if (!marks) at_ = chunk_end_;
  word.text.assign(metaspace_.mark, 0, word.mark).append(text.substr(word.rest, at_ - word.rest));
  return true;
}

NormalizedText mark_blanks(const Metaspace& metaspace, const NormalizedText& source, size_t begin, size_t end) {
  NormalizedText out(source.first());
  const std::string_view text = source.text();
  using Scheme = Metaspace::Prepend;
  const bool wanted =
      metaspace.prepend == Scheme::always || (metaspace.prepend == Scheme::first && source.origin(begin).first == 0);
  const bool marked = text[begin] == ' ' || text.substr(begin, metaspace.mark.size()) == metaspace.mark;
  if (wanted && !marked) out.append(metaspace.mark, source.origin(begin));
  for (size_t at = begin; at < end; ++at) {
    if (text[at] == ' ') {
      out.append(metaspace.mark, source.origin(at));
    } else {
      out.append(source, at, at + 1);
    }
  }
  return out;
}

namespace {

constexpr double kUnknownPenalty = 10.0;  // below the worst piece, as in sentencepiece
constexpr uint32_t kUnreached = UINT32_MAX;
constexpr size_t kLongestWhole = 64;  // bytes

ByteTrie make_trie(const UnigramModel::Vocabulary& vocabulary) {
  std::vector<std::string_view> pieces;
  pieces.reserve(vocabulary.size());
  for (const auto& entry : vocabulary) pieces.emplace_back(entry.first);
  return ByteTrie(pieces);
}

}  // namespace

UnigramModel::UnigramModel(const Vocabulary& vocabulary, const Options& options)
    : trie_(make_trie(vocabulary)), bytes_{}, options_(options) {
  double worst = std::numeric_limits<double>::infinity();
  scores_.reserve(vocabulary.size());
  for (const auto& entry : vocabulary) {
    scores_.push_back(entry.second);
    worst = std::min(worst, entry.second);
  }
  unknown_score_ = worst - kUnknownPenalty;
  for (size_t byte = 0; byte < bytes_.size(); ++byte) {
    bytes_[byte] = trie_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  // Most words are one piece. Knowing which pieces stay whole saves the search; long ones would take time like their
  // square here, and are rare.
  std::vector<bool> whole(vocabulary.size());
  Scratch scratch;
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary[id].first.size() > kLongestWhole) continue;
    encode(vocabulary[id].first, scratch);
    whole[id] = scratch.tokens.size() == 1 && scratch.tokens.front().id == static_cast<int32_t>(id);
  }
  whole_ = std::move(whole);
}

void UnigramModel::encode(std::string_view word, Scratch& scratch) const {
  scratch.tokens.clear();
  if (word.empty()) return;
  if (const auto piece = trie_.find(word); piece && !whole_.empty() && whole_[static_cast<size_t>(*piece)]) {
    scratch.tokens.push_back({*piece, 0, static_cast<uint32_t>(word.size())});
    return;
  }
  search(word, scratch.best);
  trace_back(word, scratch);
}

// Viterbi from left to right. A later candidate wins only by a strictly larger sum: with equal sums the one that began
// first wins, as in the oracle. Sums are added in the oracle's order, so they are equal to the last bit.
void UnigramModel::search(std::string_view word, std::vector<Scratch::Best>& best) const {
  const auto size = static_cast<uint32_t>(word.size());
  best.assign(size_t{size} + 1, {0.0, kUnreached, 0});
  const auto offer = [&](uint32_t end, double score, uint32_t start, int32_t id) {
    Scratch::Best& place = best[end];
    if (place.start == kUnreached || score > place.score) place = {score, start, id};
  };
  for (uint32_t start = 0; start < size;) {
    const double so_far = best[start].score;
    const uint32_t next = start + static_cast<uint32_t>(code_point_bytes(word.substr(start)));
    bool single = false;
    uint32_t node = ByteTrie::kRoot;
    for (uint32_t end = start; end < size && trie_.step(node, static_cast<uint8_t>(word[end]));) {
      ++end;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(end, scores_[static_cast<size_t>(id)] + so_far, start, id);
      single |= end == next;
    }
    if (!single) offer(next, unknown_score_ + so_far, start, options_.unknown);
    start = next;
  }
}

void UnigramModel::trace_back(std::string_view word, Scratch& scratch) const {
  std::vector<WordToken>& out = scratch.tokens;
  // Written from the end backwards; [end, unknown_end) is a run of unknown characters not yet written.
  auto end = static_cast<uint32_t>(word.size());
  uint32_t unknown_end = end;
  const auto write_unknown = [&] {
    if (unknown_end != end) add_unknown(word, end, unknown_end, out);
  };
  while (end > 0) {
    const Scratch::Best& last = scratch.best[end];
    if (last.id == options_.unknown && options_.fuse_unknown) {
      end = last.start;
      continue;
    }
    write_unknown();
    if (last.id == options_.unknown) {
      add_unknown(word, last.start, end, out);
    } else {
      out.push_back({last.id, last.start, end});
    }
    end = unknown_end = last.start;
  }
  write_unknown();
  std::ranges::reverse(out);
}

// A run of unknown characters may equal a piece after all, including the unknown piece itself.
void UnigramModel::add_unknown(std::string_view word, uint32_t begin, uint32_t end, std::vector<WordToken>& out) const {
  const std::string_view text = word.substr(begin, end - begin);
  if (const auto piece = trie_.find(text)) {
    out.push_back({*piece, begin, end});
    return;
  }
  const auto has_piece = [&](char c) { return bytes_[static_cast<uint8_t>(c)] >= 0; };
  if (!options_.byte_fallback || !std::ranges::all_of(text, has_piece)) {
    out.push_back({options_.unknown, begin, end});
    return;
  }
  // Every byte's token has the origin of the whole run.
  for (size_t i = text.size(); i-- > 0;) out.push_back({bytes_[static_cast<uint8_t>(text[i])], begin, end});
}

namespace {

struct UnigramWords {
  struct Scratch {
    UnigramModel::Scratch model = {};
    MarkedWord word = {};
  };
  UnigramModel model;
  Metaspace metaspace;

  void add(const NormalizedText& source, size_t begin, size_t end, Scratch& scratch, Tokens& out) const {
    if (metaspace.split || metaspace.mark.empty()) return add_split(metaspace, source, begin, end, scratch, out);
    // Marks are inserted first; the result has no spaces left and is one word, or one per white space.
    const Metaspace plain{.whitespace_split = metaspace.whitespace_split, .mark = ""}, unmarked{.mark = ""};
    MarkedWord chunk;
    for (MetaspaceWords chunks(plain, source, begin, end); chunks.next(chunk);) {
      const NormalizedText marked = mark_blanks(metaspace, source, chunk.rest, chunk.rest + chunk.text.size());
      add_split(unmarked, marked, 0, marked.size(), scratch, out);
    }
  }

  void add_split(const Metaspace& by, const NormalizedText& source, size_t begin, size_t end, Scratch& scratch,
                 Tokens& out) const {
    for (MetaspaceWords words(by, source, begin, end); words.next(scratch.word) && !out.stop();) {
      model.encode(scratch.word.text, scratch.model);
      for (const WordToken& token : scratch.model.tokens) {
        out.add(token.id, scratch.word.origin(source, token.begin, token.end));
      }
    }
  }
};

std::unique_ptr<const Tokenizer> make(Pipeline::Parts parts, const UnigramModel::Vocabulary& pieces,
                                      const UnigramModel::Options& options, Metaspace metaspace) {
  std::vector<std::pair<std::string, int32_t>> ids;
  ids.reserve(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id) ids.emplace_back(pieces[id].first, static_cast<int32_t>(id));
  Vocabulary vocabulary(ids, parts.where);
  return std::make_unique<PipelineTokenizer<UnigramWords>>(
      "unigram", Pipeline(std::move(parts), std::move(vocabulary)),
      UnigramWords{UnigramModel(pieces, options), std::move(metaspace)});
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
    added.add({.content = piece.text, .id = static_cast<int32_t>(id), .normalized = false, .special = special});
  }
  // Settings in the configuration take precedence.
  for (const AddedToken& token : config.added) added.put(token);
  return added.take();
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
