// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/wordpiece.h"

#include <bit>
#include <cstring>

#include "exeunt/text/normalized_text.h"

namespace exeunt {
namespace {

constexpr size_t kShortWord = 16;  // bytes that fit a key

template <class Word>
uint64_t load(const char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

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
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;
  return (((key.low + size) * kOdd) ^ std::rotl(key.high * kOdd, 32)) * kOdd >> shift_;
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

bool WordPieceModel::longest(const ByteTrie& trie, std::string_view word, Piece& piece) const noexcept {
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

void WordPieceModel::cut(std::string_view word, std::vector<Piece>& pieces) const {
  pieces.clear();
  const Piece whole_word{unknown_, 0, static_cast<uint32_t>(word.size())};
  bool known = word.size() <= max_chars_ || count_code_points(word) <= max_chars_;
  Piece piece{0, 0, 0};
  while (known && piece.begin < word.size()) {
    known = longest(piece.begin == 0 ? starts_ : continuations_, word, piece);
    pieces.push_back(piece);
    piece.begin = piece.end;
  }
  if (!known) pieces.assign(1, whole_word);
}

}  // namespace exeunt
