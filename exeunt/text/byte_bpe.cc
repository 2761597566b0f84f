// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/byte_bpe.h"

#include <algorithm>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "exeunt/base/secret_hash.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/byte_level.h"

namespace exeunt {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kShort = 48;  // up to here scanning all pairs beats a heap

uint64_t key_of(int32_t left, int32_t right) noexcept {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// The high bits of a product with an odd number that whoever chose the merges does not know.
size_t slot_of(uint64_t key, uint64_t factor, int shift) noexcept {
  return static_cast<size_t>((key * factor) >> shift);
}

std::string written(uint8_t byte) {
  std::string text;
  append_utf8(text, byte_character(byte));
  return text;
}

// The heap's top is the smallest rank, then the leftmost place.
bool later(const ByteBpeModel::Scratch::Candidate& a, const ByteBpeModel::Scratch::Candidate& b) noexcept {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

}  // namespace

ByteBpeModel::ByteBpeModel(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const Options& options)
    : factor_(hash_secret()[1] | 1U), options_(options) {
  const size_t size = std::bit_ceil(merges.size() * 2 + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t key = key_of(merges[rank].left, merges[rank].right);
    size_t slot = slot_of(key, factor_, shift_);
    while (slots_[slot].pair != UINT64_MAX && slots_[slot].pair != key) slot = (slot + 1) & (size - 1);
    slots_[slot] = {key, static_cast<uint32_t>(rank), merges[rank].result};  // of duplicate pairs the last one wins
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes_[byte] = vocabulary.id(written(static_cast<uint8_t>(byte))).value_or(-1);
    fallback_[byte] = vocabulary.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  const auto limit = static_cast<size_t>(vocabulary.id_limit());
  std::vector<std::string> texts(limit);
  std::vector<std::string_view> keys(limit);
  for (size_t id = 0; id < limit; ++id) {
    texts[id] = token_bytes(vocabulary.token(static_cast<int32_t>(id))).value_or("");
    keys[id] = texts[id];
  }
  // Most words are one token. Knowing which tokens their merges produce saves the merging.
  std::vector<bool> whole(limit, options.ignore_merges);
  Scratch scratch;
  for (size_t id = 0; id < limit && !options.ignore_merges; ++id) {
    encode(texts[id], scratch);
    whole[id] = scratch.tokens.size() == 1 && scratch.tokens.front().id == static_cast<int32_t>(id);
  }
  words_ = ByteTrie(keys);
  whole_ = std::move(whole);
}

const ByteBpeModel::Slot* ByteBpeModel::find(int32_t left, int32_t right) const noexcept {
  const uint64_t key = key_of(left, right);
  for (size_t slot = slot_of(key, factor_, shift_);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].pair == key) return &slots_[slot];
    if (slots_[slot].pair == UINT64_MAX) return nullptr;
  }
}

void ByteBpeModel::encode(std::string_view word, Scratch& scratch) const {
  scratch.tokens.clear();
  if (word.empty()) return;
  if (const auto token = words_.find(word); token && whole_[static_cast<size_t>(*token)]) {
    scratch.tokens.push_back({*token, 0, static_cast<uint32_t>(word.size())});
    return;
  }
  const bool complete = start(word, scratch);
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  uint32_t at = 0;
  for (const Scratch::Symbol& symbol : scratch.symbols) {
    if (symbol.size == 0) continue;
    WordToken token{symbol.id, at, at + symbol.size};
    at = token.end;
    if (!complete) {
      token.begin = scratch.written[token.begin];
      token.end = scratch.written[token.end - 1] + 1;
    }
    scratch.tokens.push_back(token);
  }
}

// One symbol per byte. If bytes have no token, sizes and positions are those of the written form, as the oracle counts
// them: a dropped byte shifts everything after it to the left. Returns whether every byte had a token.
bool ByteBpeModel::start(std::string_view word, Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  const bool complete =
      std::all_of(word.begin(), word.end(), [&](char c) { return bytes_[static_cast<uint8_t>(c)] >= 0; });
  scratch.written.clear();
  std::optional<Scratch::Symbol> unknown;
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    const uint32_t size = complete || byte_character(byte) < 0x80 ? 1 : 2;
    if (!complete) scratch.written.insert(scratch.written.end(), size, static_cast<uint32_t>(i));
    if (bytes_[byte] < 0) {
      add_missing(byte, scratch, unknown);
      continue;
    }
    if (unknown) symbols.push_back(*unknown);
    unknown.reset();
    symbols.push_back({bytes_[byte], size, 0, 0});
  }
  if (unknown) symbols.push_back(*unknown);
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].prev = i == 0 ? kNone : static_cast<uint32_t>(i - 1);
    symbols[i].next = i + 1 == symbols.size() ? kNone : static_cast<uint32_t>(i + 1);
  }
  return complete;
}

// An unknown byte is pending in `unknown`; fallback tokens overtake it, as in the oracle.
void ByteBpeModel::add_missing(uint8_t byte, Scratch& scratch, std::optional<Scratch::Symbol>& unknown) const {
  const std::string text = written(byte);
  const auto fallback = [&](char c) { return fallback_[static_cast<uint8_t>(c)]; };
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) { return fallback(c) >= 0; })) {
    for (const char c : text) scratch.symbols.push_back({fallback(c), 1, 0, 0});
    return;
  }
  if (!options_.unknown) return;
  const auto size = static_cast<uint32_t>(text.size());
  if (unknown && options_.fuse_unknown) {
    unknown->size += size;
    return;
  }
  if (unknown) scratch.symbols.push_back(*unknown);
  unknown = Scratch::Symbol{*options_.unknown, size, 0, 0};
}

void ByteBpeModel::merge_short(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint32_t>& ranks = scratch.ranks;  // of the pair that begins at each symbol
  const auto rank_at = [&](size_t i) {
    const Slot* merge = i + 1 < symbols.size() ? find(symbols[i].id, symbols[i + 1].id) : nullptr;
    return merge == nullptr ? kNone : merge->rank;
  };
  ranks.resize(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) ranks[i] = rank_at(i);
  for (;;) {
    const auto best = static_cast<size_t>(std::min_element(ranks.begin(), ranks.end()) - ranks.begin());
    if (best == ranks.size() || ranks[best] == kNone) return;
    symbols[best].id = find(symbols[best].id, symbols[best + 1].id)->result;
    symbols[best].size += symbols[best + 1].size;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    ranks.erase(ranks.begin() + static_cast<ptrdiff_t>(best) + 1);
    ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
}

// Puts the pair that begins at `place` on the heap, if it can be merged.
void ByteBpeModel::offer(Scratch& scratch, uint32_t place) const {
  const Scratch::Symbol& left = scratch.symbols[place];
  if (left.next == kNone) return;
  const Slot* merge = find(left.id, scratch.symbols[left.next].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, place, merge->result});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
}

// The same in n log n: a heap of candidates, some of them stale when they reach the top.
void ByteBpeModel::merge_long(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  scratch.heap.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i) offer(scratch, i);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), later);
    const Scratch::Candidate top = scratch.heap.back();
    scratch.heap.pop_back();
    Scratch::Symbol& left = symbols[top.place];
    if (left.size == 0 || left.next == kNone) continue;
    Scratch::Symbol& right = symbols[left.next];
    const Slot* merge = find(left.id, right.id);
    if (merge == nullptr || merge->rank != top.rank) continue;
    left.id = top.result;
    left.size += right.size;
    left.next = right.next;
    right.size = 0;
    if (left.next != kNone) symbols[left.next].prev = top.place;
    if (left.prev != kNone) offer(scratch, left.prev);
    offer(scratch, top.place);
  }
}

}  // namespace exeunt
