// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/vocabulary.h"

#include <algorithm>
#include <bit>

#include "exeunt/base/error.h"
#include "exeunt/base/secret_hash.h"

namespace exeunt {
namespace {

size_t hash_of(std::string_view token) {
  return SecretHash{}(token);
}

void check_id(const std::string& token, int64_t id, int64_t largest, std::string_view where) {
  if (id >= 0 && id <= largest) return;
  throw_bad_file(where, "token '{}': got id {}, want 0 to {}", token, id, largest);
}

// Gaps are bounded by the number of tokens: memory depends on the size of the file, not on what it claims.
int64_t largest_id_for(size_t tokens) {
  return std::min<int64_t>(kMaxTokenId, 65536 + 4 * static_cast<int64_t>(tokens));
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens, std::string_view where)
    : count_(tokens.size()) {
  int32_t largest = -1;
  size_t bytes = 0;
  for (const auto& [token, id] : tokens) {
    check_id(token, id, largest_id_for(tokens.size()), where);
    if (token.size() > kMaxTokenBytes)
      throw_bad_file(where, "got a token of {} bytes, want at most {}", token.size(), kMaxTokenBytes);
    largest = std::max(largest, id);
    bytes += token.size();
  }
  bytes_.reserve(bytes);
  spans_.resize(static_cast<size_t>(largest) + 1);
  buckets_.assign(std::bit_ceil(tokens.size() * 2 + 1), -1);
  const size_t mask = buckets_.size() - 1;
  for (const auto& [text, id] : tokens) {
    Span& span = spans_[static_cast<size_t>(id)];
    if (span.used) throw_bad_file(where, "id {} belongs to both '{}' and '{}'", id, token(id), text);
    if (const auto other = this->id(text)) {
      throw_bad_file(where, "duplicate token '{}', with ids {} and {}", text, *other, id);
    }
    span = {bytes_.size(), static_cast<uint32_t>(text.size()), true};
    bytes_ += text;
    size_t slot = hash_of(text) & mask;
    while (buckets_[slot] >= 0) slot = (slot + 1) & mask;
    buckets_[slot] = id;
  }
}

std::optional<int32_t> Vocabulary::id(std::string_view text) const noexcept {
  if (buckets_.empty()) return std::nullopt;
  const size_t mask = buckets_.size() - 1;
  for (size_t slot = hash_of(text) & mask; buckets_[slot] >= 0; slot = (slot + 1) & mask) {
    if (token(buckets_[slot]) == text) return buckets_[slot];
  }
  return std::nullopt;
}

std::string_view Vocabulary::token(int32_t id) const noexcept {
  if (!has(id)) return {};
  const Span& span = spans_[static_cast<size_t>(id)];
  return std::string_view(bytes_).substr(span.begin, span.size);
}

bool Vocabulary::has(int32_t id) const noexcept {
  return id >= 0 && id < id_limit() && spans_[static_cast<size_t>(id)].used;
}

std::vector<std::pair<std::string, int32_t>> read_token_ids(const Json& object, const std::string& where) {
  if (!object.is_object()) throw_bad_file(where, "got {}, want an object of tokens and ids", glimpse(object));
  std::vector<std::pair<std::string, int32_t>> tokens;
  tokens.reserve(object.size());
  for (const auto& [token, value] : object.items()) {
    if (!value.is_number_integer())
      throw_bad_file(where, "token '{}': got {}, want a whole number", token, glimpse(value));
    const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    const int64_t id = fits ? value.get<int64_t>() : INT64_MAX;
    check_id(token, id, kMaxTokenId, where);
    tokens.emplace_back(token, static_cast<int32_t>(id));
  }
  return tokens;
}

}  // namespace exeunt
