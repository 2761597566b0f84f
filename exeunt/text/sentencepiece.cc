// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/pipeline.h"
#include "exeunt/text/tokenizer_json.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

using Type = ProtoField::Type;

std::string piece_place(const std::string& where, size_t id) {
  return fmt::format("{}: piece {}", where, id);
}

SentencePiece parse_piece(const ProtoField& message, const std::string& where) {
  SentencePiece piece;
  ProtoReader reader(message.bytes, where);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        reader.expect(*field, Type::bytes);
        piece.text = field->text();
        break;
      case 2:
        reader.expect(*field, Type::fixed32);
        piece.score = field->real();
        break;
      case 3:
        reader.expect(*field, Type::varint);
        if (field->value < 1 || field->value > 6) throw_bad_file(where, "got type {}, want 1 to 6", field->value);
        piece.kind = SentencePiece::Kind(field->value);
        break;
      default:
        break;
    }
  }
  if (piece.text.empty()) throw_bad_file(where, "the piece is empty");
  if (piece.text.size() > kMaxPieceBytes) {
    throw_bad_file(where, "got {} bytes, want at most {}", piece.text.size(), kMaxPieceBytes);
  }
  if (find_invalid_utf8(piece.text)) throw_bad_file(where, "the piece is not UTF-8");
  if (!std::isfinite(piece.score)) throw_bad_file(where, "'{}' has the score {}", piece.text, piece.score);
  return piece;
}

struct Trainer {
  uint64_t model_type = 1;  // unigram, the default of the format
  int64_t unknown = 0;
  bool byte_fallback = false;
};

void parse_trainer(const ProtoField& message, const std::string& where, Trainer& trainer) {
  ProtoReader reader(message.bytes, where + ": trainer_spec");
  while (const auto field = reader.next()) {
    if (field->number != 3 && field->number != 35 && field->number != 40) continue;
    reader.expect(*field, Type::varint);
    if (field->number == 35) trainer.byte_fallback = field->value != 0;
    if (field->number == 3) trainer.model_type = field->value;
    if (field->number == 40) trainer.unknown = field->integer();
  }
}

void parse_normalizer(const ProtoField& message, const std::string& where, SpieceModel& model) {
  ProtoReader reader(message.bytes, where + ": normalizer_spec");
  bool* const flags[] = {&model.whitespace.dummy_prefix, &model.whitespace.remove_extra, &model.whitespace.escape};
  while (const auto field = reader.next()) {
    if (field->number == 2) {
      reader.expect(*field, Type::bytes);
      model.charsmap = field->text();
    } else if (field->number >= 3 && field->number <= 5) {
      reader.expect(*field, Type::varint);
      *flags[field->number - 3] = field->value != 0;
    }
  }
}

void check_model(const SpieceModel& model, const Trainer& trainer, const std::string& where) {
  constexpr std::string_view kModelTypes[] = {"?", "unigram", "BPE", "word", "character"};
  if (trainer.model_type != 1) {
    throw Error(Code::bad_file,
                fmt::format("{}: got a model of type {} ({}), want 1 (unigram)", where, trainer.model_type,
                            kModelTypes[trainer.model_type < std::size(kModelTypes) ? trainer.model_type : 0]),
                "only unigram models, like ALBERT's, are supported in spiece.model");
  }
  if (model.pieces.empty()) throw_bad_file(where, "the model has no pieces");
  const auto size = static_cast<int64_t>(model.pieces.size());
  if (trainer.unknown < 0 || trainer.unknown >= size) {
    throw_bad_file(where, "trainer_spec: unk_id: got {}, want 0 to {}", trainer.unknown, size - 1);
  }
  std::unordered_map<std::string_view, size_t, SecretHash> seen;
  seen.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const auto [first, fresh] = seen.emplace(piece.text, id);
    if (!fresh) throw_bad_file(piece_place(where, id), "'{}' was piece {} already", piece.text, first->second);
    const bool unknown = static_cast<int64_t>(id) == trainer.unknown;
    if (unknown != (piece.kind == SentencePiece::Kind::unknown)) {
      throw_bad_file(piece_place(where, id), "'{}' {} of the unknown type, but unk_id is {}", piece.text,
                     unknown ? "is not" : "is", trainer.unknown);
    }
  }
}

// How long the list of pieces will be: one that grows would take up to three times its size. A piece without a text is
// refused later; not counting it bounds the list by eight times the file.
size_t count_pieces(std::span<const std::byte> bytes, const std::string& where) {
  constexpr size_t kShortest = 3;  // tag, length and one byte of text
  ProtoReader reader(bytes, where);
  size_t count = 0;
  while (const auto field = reader.next()) count += field->number == 1 && field->bytes.size() >= kShortest ? 1 : 0;
  return count;
}

}  // namespace

SpieceModel parse_spiece_model(std::span<const std::byte> bytes, const std::string& where) {
  SpieceModel model;
  const size_t pieces = count_pieces(bytes, where);
  if (pieces > size_t{kMaxTokenId} + 1) {
    throw_bad_file(where, "got {} pieces, want at most {}", pieces, kMaxTokenId + 1);
  }
  model.pieces.reserve(pieces);
  Trainer trainer;
  ProtoReader reader(bytes, where);
  while (const auto field = reader.next()) {
    if (field->number < 1 || field->number > 3) continue;  // self tests, denormaliser, extensions
    reader.expect(*field, Type::bytes);
    if (field->number == 1) {
      model.pieces.push_back(parse_piece(*field, piece_place(where, model.pieces.size())));
    } else if (field->number == 2) {
      parse_trainer(*field, where, trainer);
    } else {
      parse_normalizer(*field, where, model);
    }
  }
  check_model(model, trainer, where);
  model.unknown = static_cast<int32_t>(trainer.unknown);
  model.byte_fallback = trainer.byte_fallback;
  return model;
}

void check_spiece_vocab(const SpieceModel& model, std::string_view text, const std::string& where) {
  size_t id = 0;
  for (; !text.empty(); ++id) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string place = fmt::format("{}: line {}", where, id + 1);
    if (id == model.pieces.size()) throw_bad_file(place, "the model has only {} pieces", id);
    const SentencePiece& piece = model.pieces[id];
    const size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos) throw_bad_file(place, "got no tab, want a piece, a tab and its score");
    if (line.substr(0, tab) != piece.text) {
      throw_bad_file(place, "got piece '{}', want '{}' as in the model", line.substr(0, tab), piece.text);
    }
    // The trainer prints about six digits.
    const auto score = number_of<double>(line.substr(tab + 1));
    const double slack = 1e-4 * std::max(1.0F, std::abs(piece.score));
    if (!score || !(std::abs(*score - piece.score) <= slack)) {
      throw_bad_file(place, "got score '{}', want {} as in the model", line.substr(tab + 1), piece.score);
    }
  }
  if (id < model.pieces.size()) {
    throw_bad_file(where, "got {} lines, want {}, one for each piece of the model", id, model.pieces.size());
  }
}

int32_t find_piece(const SpieceModel& model, const std::string& text, const std::string& where) {
  const auto found = std::ranges::find_if(model.pieces, [&](const SentencePiece& piece) { return piece.text == text; });
  if (found == model.pieces.end()) throw_bad_file(where, "the model has no piece '{}', a special token", text);
  return static_cast<int32_t>(found - model.pieces.begin());
}

namespace {

using Kind = SentencePiece::Kind;

constexpr float kUnknownBelowWorst = 10.0F;  // below the worst piece

// A trie whose values are ids; pieces that are not `wanted` are left out.
template <class Wanted>
ByteTrie trie_of(const std::vector<SentencePiece>& pieces, const Wanted& wanted) {
  std::vector<std::string_view> keys;
  keys.reserve(pieces.size());
  for (const SentencePiece& piece : pieces) keys.push_back(wanted(piece.kind) ? std::string_view(piece.text) : "");
  return ByteTrie(keys);
}

// Appends with the origin of the whole source range, and every space as a mark.
void append_marked(std::string_view text, Offset origin, bool escape, NormalizedText& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text.substr(at));
    const bool mark = escape && text[at] == ' ';
    out.append(mark ? kSpaceMark : text.substr(at, bytes), origin);
    at += bytes;
  }
}

}  // namespace

SentencePieceModel::SentencePieceModel(const SpieceModel& model, const std::string& where)
    : searched_(trie_of(model.pieces, [](Kind kind) { return kind == Kind::normal || kind == Kind::user_defined; })),
      all_(trie_of(model.pieces, [](Kind) { return true; })),
      user_defined_(trie_of(model.pieces, [](Kind kind) { return kind == Kind::user_defined; })),
      pieces_(model.pieces),
      whitespace_(model.whitespace),
      unknown_(model.unknown) {
  if (!model.charsmap.empty()) charsmap_ = std::make_shared<const Charsmap>(model.charsmap, where);
  // The best score begins at the smallest positive number there, so that scores below 0 never count.
  float worst = std::numeric_limits<float>::max(), best = std::numeric_limits<float>::min();
  for (const SentencePiece& piece : pieces_) {
    if (piece.kind != Kind::normal) continue;
    worst = std::min(worst, piece.score);
    best = std::max(best, piece.score);
  }
  unknown_score_ = worst - kUnknownBelowWorst;
  best_score_ = best;
  // A space must be a piece, too: an unknown one would be joined with what is before it.
  parts_ = searched_.find(space()).has_value() && std::ranges::none_of(pieces_, [&](const SentencePiece& piece) {
             return (piece.kind == Kind::normal || piece.kind == Kind::user_defined) &&
                    piece.text.find(space(), 1) != std::string::npos;
           });
}

size_t SentencePieceModel::part_end(std::string_view normalized, size_t at) const noexcept {
  return parts_ ? std::min(normalized.find(space(), at + 1), normalized.size()) : normalized.size();
}

int32_t SentencePieceModel::id(std::string_view piece) const noexcept {
  return all_.find(piece).value_or(unknown_);
}

// The longest user-defined piece as it is, else what the longest entry of the map says, else one character.
SentencePieceModel::Prefix SentencePieceModel::normal_prefix(std::string_view rest) const {
  size_t longest = 0;
  uint32_t node = ByteTrie::kRoot;
  for (size_t at = 0; at < rest.size() && user_defined_.step(node, static_cast<uint8_t>(rest[at]));) {
    ++at;
    if (user_defined_.value(node) >= 0) longest = at;
  }
  if (longest > 0) return {rest.substr(0, longest), longest};
  if (charsmap_ != nullptr) {
    if (const auto found = charsmap_->find_longest(rest)) return {found->first, found->second};
  }
  const size_t bytes = code_point_bytes(rest);
  return {rest.substr(0, bytes), bytes};
}

NormalizedText SentencePieceModel::normalize(const NormalizedText& text) const {
  NormalizedText out(text.first());
  const std::string_view source = text.text();
  const size_t most = kMaxGrowth * source.size() + kSpaceMark.size();
  size_t at = 0;
  while (whitespace_.remove_extra && at < source.size()) {
    const Prefix prefix = normal_prefix(source.substr(at));
    if (prefix.text != " ") break;
    at += prefix.bytes;
  }
  if (at == source.size()) return out;
  if (whitespace_.dummy_prefix) append_marked(" ", text.origin(at), whitespace_.escape, out);
  bool after_space = whitespace_.remove_extra;
  while (at < source.size()) {
    Prefix prefix = normal_prefix(source.substr(at));
    const Offset origin = text.origin(at, at + prefix.bytes);
    while (after_space && prefix.text.starts_with(' ')) prefix.text.remove_prefix(1);
    if (!prefix.text.empty()) {
      append_marked(prefix.text, origin, whitespace_.escape, out);
      after_space = whitespace_.remove_extra && prefix.text.ends_with(' ');
    }
    if (out.size() > most) throw_grown_too_long();
    at += prefix.bytes;
  }
  if (!whitespace_.remove_extra) return out;
  size_t end = out.size();
  while (out.text().substr(0, end).ends_with(space())) end -= space().size();
  if (end == out.size()) return out;
  NormalizedText trimmed(text.first());
  if (end > 0) trimmed.append(out, 0, end);
  return trimmed;
}

// Viterbi as SentencePiece does it: sums are stored in fp32 and compared in fp64, because the bonus of user-defined
// pieces makes its candidates doubles. With equal sums the path found first stays.
std::vector<WordToken> SentencePieceModel::encode(std::string_view normalized, float& score) const {
  struct Best {
    float score = 0;
    uint32_t start = UINT32_MAX;
    int32_t id = -1;
  };
  const size_t size = normalized.size();
  std::vector<Best> best(size + 1);
  best[0].score = score;
  const auto offer = [&](size_t end, double sum, size_t start, int32_t id) {
    Best& place = best[end];
    if (place.start == UINT32_MAX || sum > place.score) {
      place = {static_cast<float>(sum), static_cast<uint32_t>(start), id};
    }
  };
  for (size_t start = 0; start < size;) {
    const float so_far = best[start].score;
    const size_t one = code_point_bytes(normalized.substr(start));
    bool single = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = start; end < size && searched_.step(node, static_cast<uint8_t>(normalized[end]));) {
      ++end;
      const int32_t id = searched_.value(node);
      if (id < 0) continue;
      const SentencePiece& piece = pieces_[static_cast<size_t>(id)];
      const size_t length = end - start;
      // A user-defined piece beats every other way to cover its characters.
      const double own = piece.kind == Kind::user_defined
                             ? static_cast<double>(static_cast<float>(length) * best_score_) - 0.1
                             : static_cast<double>(piece.score);
      offer(end, own + static_cast<double>(so_far), start, id);
      single |= length == one;
    }
    // Two floats, so their sum is one, too.
    if (!single) offer(start + one, static_cast<double>(unknown_score_ + so_far), start, unknown_);
    start += one;
  }
  score = best[size].score;
  std::vector<WordToken> out;
  for (size_t end = size; end > 0; end = best[end].start) {
    const Best& last = best[end];
    if (last.id == unknown_ && !out.empty() && out.back().id == unknown_) {
      out.back().begin = last.start;
    } else {
      out.push_back({last.id, last.start, static_cast<uint32_t>(end)});
    }
  }
  std::ranges::reverse(out);
  return out;
}

namespace {

// ALBERT's spiece.model as ALBERT was pretrained with it, and as the original early-exit systems ran it: the slow
// tokenizer of transformers up to 4.39 around SentencePiece itself.
struct SpieceWords {
  struct Scratch {};
  SentencePieceModel model;

  void add(const NormalizedText& source, size_t begin, size_t end, Scratch& /*none*/, Tokens& out) const {
    NormalizedText part(source.first());
    part.append(source, begin, end);
    add_pieces(model.normalize(part), out);
  }

  void add_pieces(const NormalizedText& text, Tokens& out) const {
    float score = 0;
    for (size_t at = 0, end = 0; at < text.size() && !out.stop(); at = end) {
      end = model.part_end(text.text(), at);
      for (WordToken piece : model.encode(text.text().substr(at, end - at), score)) {
        piece.begin += static_cast<uint32_t>(at);
        piece.end += static_cast<uint32_t>(at);
        if (ends_in_digit_and_comma(text.text().substr(piece.begin, piece.end - piece.begin))) {
          add_without_comma(text, piece, out);
        } else {
          out.add(piece.id, text.origin(piece.begin, piece.end));
        }
      }
    }
  }

  [[nodiscard]] static bool ends_in_digit_and_comma(std::string_view piece) noexcept {
    if (piece.size() < 2 || piece.back() != ',') return false;
    return unicode::is_number(decode_utf8(piece.substr(last_code_point(piece.substr(0, piece.size() - 1)))).code_point);
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
    const NormalizedText anew = model.normalize(rest);
    bool first = true;
    for (const WordToken& token : model.encode(anew.text())) {
      const bool unmark = first && !marked && anew.text().substr(token.begin).starts_with(kSpaceMark);
      first = false;
      const auto begin = token.begin + static_cast<uint32_t>(unmark ? kSpaceMark.size() : 0);
      if (begin == token.end) continue;
      const int32_t id = unmark ? model.id(anew.text().substr(begin, token.end - begin)) : token.id;
      out.add(id, anew.origin(begin, token.end));
    }
    out.add(model.id(","), text.origin(piece.end - 1, piece.end));
  }
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
    return find_piece(model, named.value_or(usual), where);
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
    all.add({.content = token.value_or(usual), .id = find(token, usual), .normalized = false, .special = true});
  }
  for (const AddedToken& token : config.added) all.add(token);
  parts.added = all.take();
  std::vector<std::pair<std::string, int32_t>> ids;
  ids.reserve(model.pieces.size());
  for (const SentencePiece& piece : model.pieces) ids.emplace_back(piece.text, static_cast<int32_t>(ids.size()));
  Vocabulary vocabulary(ids, where);
  return std::make_unique<PipelineTokenizer<SpieceWords>>("unigram", Pipeline(std::move(parts), std::move(vocabulary)),
                                                          SpieceWords{SentencePieceModel(model, where)});
}

}  // namespace exeunt
