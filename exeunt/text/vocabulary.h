// SPDX-License-Identifier: Apache-2.0
// Tokens and their ids, both ways. Shared by the three tokenizer families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"

namespace exeunt {

// Larger ids mean a corrupt file: no vocabulary of these families comes near.
inline constexpr int32_t kMaxTokenId = (1 << 24) - 1;
inline constexpr size_t kMaxTokenBytes = 4096;  // what is built over tokens takes many times their bytes

class Vocabulary {
 public:
  Vocabulary() = default;
  // Ids may have gaps, but tables cover all of them, so an id far beyond the number of tokens is rejected. Throws Error
  // (prefixed by `where`) for that, and for a duplicate token or id.
  Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens, std::string_view where);

  [[nodiscard]] std::optional<int32_t> id(std::string_view token) const noexcept;
  [[nodiscard]] std::string_view token(int32_t id) const noexcept;  // "" if there is none
  [[nodiscard]] bool has(int32_t id) const noexcept;
  [[nodiscard]] size_t count() const noexcept { return count_; }  // tokens, without gaps
  [[nodiscard]] int32_t id_limit() const noexcept { return static_cast<int32_t>(spans_.size()); }  // largest id + 1

 private:
  struct Span {
    uint64_t begin = 0;
    uint32_t size = 0;
    bool used = false;
  };
  std::string bytes_;             // all tokens, one after another
  std::vector<Span> spans_;       // by id
  std::vector<int32_t> buckets_;  // open addressing over ids, -1 = free; a power of two
  size_t count_ = 0;
};

// A token of one word: bytes [begin, end) of it.
struct WordToken {
  int32_t id;
  uint32_t begin, end;
};

// A JSON object of token → id, as in tokenizer.json and vocab.json.
[[nodiscard]] std::vector<std::pair<std::string, int32_t>> read_token_ids(const Json& object, const std::string& where);

}  // namespace exeunt
