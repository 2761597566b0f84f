// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/sentencepiece.h"

#include <algorithm>
#include <limits>

#include "exeunt/base/utf8.h"
#include "exeunt/text/charsmap.h"
#include "exeunt/text/normalizer.h"

namespace exeunt {
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

size_t code_point_bytes(std::string_view text, size_t at) noexcept {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size() - at);
}

// Appends with the origin of the whole source range, and every space as a mark.
void append_marked(std::string_view text, Offset origin, bool escape, NormalizedText& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
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
  if (!model.charsmap.empty()) charsmap_ = std::make_unique<const Charsmap>(model.charsmap, where);
  // The best score begins at the smallest positive number there, so that scores below 0 never count.
  float worst = std::numeric_limits<float>::max(), best = std::numeric_limits<float>::min();
  for (const SentencePiece& piece : pieces_) {
    if (piece.kind != Kind::normal) continue;
    worst = std::min(worst, piece.score);
    best = std::max(best, piece.score);
  }
  unknown_score_ = worst - kUnknownBelowWorst;
  best_score_ = best;
}

SentencePieceModel::~SentencePieceModel() = default;
SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;

int32_t SentencePieceModel::id(std::string_view piece) const noexcept {
  return all_.find(piece).value_or(unknown_);
}

// The longest user-defined piece as it is, else what the longest entry of the map says, else one character.
SentencePieceModel::Prefix SentencePieceModel::normal_prefix(std::string_view rest) const noexcept {
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
  const size_t bytes = code_point_bytes(rest, 0);
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
  const std::string_view space = whitespace_.escape ? kSpaceMark : std::string_view(" ");
  size_t end = out.size();
  while (out.text().substr(0, end).ends_with(space)) end -= space.size();
  if (end == out.size()) return out;
  NormalizedText trimmed(text.first());
  if (end > 0) trimmed.append(out, 0, end);
  return trimmed;
}

// Viterbi as SentencePiece does it: sums are stored in fp32 and compared in fp64, because the bonus of user-defined
// pieces makes its candidates doubles. With equal sums the path found first stays.
std::vector<WordToken> SentencePieceModel::encode(std::string_view normalized) const {
  struct Best {
    float score = 0;
    uint32_t start = UINT32_MAX;
    int32_t id = -1;
  };
  const size_t size = normalized.size();
  std::vector<Best> best(size + 1);
  const auto offer = [&](size_t end, double score, size_t start, int32_t id) {
    Best& place = best[end];
    if (place.start == UINT32_MAX || score > place.score) {
      place = {static_cast<float>(score), static_cast<uint32_t>(start), id};
    }
  };
  for (size_t start = 0; start < size;) {
    const float so_far = best[start].score;
    const size_t one = code_point_bytes(normalized, start);
    bool single = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = start; end < size && searched_.step(node, static_cast<uint8_t>(normalized[end]));) {
      ++end;
      const int32_t id = searched_.value(node);
      if (id < 0) continue;
      const SentencePiece& piece = pieces_[static_cast<size_t>(id)];
      const size_t length = end - start;
      // A user-defined piece beats every other way to cover its characters.
      const double score = piece.kind == Kind::user_defined
                               ? static_cast<double>(static_cast<float>(length) * best_score_) - 0.1
                               : static_cast<double>(piece.score);
      offer(end, score + static_cast<double>(so_far), start, id);
      single |= length == one;
    }
    // Two floats, so their sum is one, too.
    if (!single) offer(start + one, static_cast<double>(unknown_score_ + so_far), start, unknown_);
    start += one;
  }
  std::vector<WordToken> out;
  for (size_t end = size; end > 0; end = best[end].start) {
    const Best& last = best[end];
    if (last.id == unknown_ && !out.empty() && out.back().id == unknown_) {
      out.back().begin = last.start;
    } else {
      out.push_back({last.id, last.start, static_cast<uint32_t>(end)});
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace exeunt
