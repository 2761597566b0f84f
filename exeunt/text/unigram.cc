// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/unigram.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace exeunt {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the worst piece, as in sentencepiece
constexpr uint32_t kUnreached = UINT32_MAX;

ByteTrie make_trie(const UnigramModel::Vocabulary& vocabulary) {
  std::vector<std::string_view> pieces;
  pieces.reserve(vocabulary.size());
  for (const auto& entry : vocabulary) pieces.emplace_back(entry.first);
  return ByteTrie(pieces);
}

uint32_t code_point_bytes(char lead) noexcept {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
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
  // Most words are one piece. Knowing which pieces stay whole saves the search.
  std::vector<bool> whole(vocabulary.size());
  Scratch scratch;
  for (size_t id = 0; id < vocabulary.size(); ++id) {
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
    const uint32_t next = start + code_point_bytes(word[start]);
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
  std::reverse(out.begin(), out.end());
}

// A run of unknown characters may equal a piece after all, including the unknown piece itself.
void UnigramModel::add_unknown(std::string_view word, uint32_t begin, uint32_t end, std::vector<WordToken>& out) const {
  const std::string_view text = word.substr(begin, end - begin);
  if (const auto piece = trie_.find(text)) {
    out.push_back({*piece, begin, end});
    return;
  }
  const auto has_piece = [&](char c) { return bytes_[static_cast<uint8_t>(c)] >= 0; };
  if (!options_.byte_fallback || !std::all_of(text.begin(), text.end(), has_piece)) {
    out.push_back({options_.unknown, begin, end});
    return;
  }
  // Every byte's token has the origin of the whole run.
  for (size_t i = text.size(); i-- > 0;) out.push_back({bytes_[static_cast<uint8_t>(text[i])], begin, end});
}

}  // namespace exeunt
