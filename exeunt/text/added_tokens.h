// SPDX-License-Identifier: Apache-2.0
// Added tokens: matched as a whole in the text before, or after, normalisation, and never split by the model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/text/byte_trie.h"
#include "exeunt/text/normalizer.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {

struct AddedToken {
  std::string content = {};
  std::optional<int32_t> id = {};  // as the file says; must agree with the vocabulary
  bool single_word = false;        // matches only between non-word characters
  bool lstrip = false;             // absorbs the white space before it
  bool rstrip = false;             // and after it
  bool normalized = true;          // matched in the normalised text, after normalising its content
  bool special = false;
};

// Reads content, single_word, lstrip, rstrip and, where there is one, normalized.
void read_added_token(JsonObject& object, AddedToken& token);

// Reads "added_tokens" of tokenizer.json.
[[nodiscard]] std::vector<AddedToken> parse_added_tokens(const Json& value, const std::string& where);

// Puts the tokens of several files together, each content once.
class AddedTokenList {
 public:
  void add(AddedToken token);  // unless one with its content is there
  void put(AddedToken token);  // in place of one with its content, whose id it has unless it has its own
  [[nodiscard]] std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  std::vector<AddedToken> tokens_ = {};
  std::unordered_map<std::string, size_t, SecretHash> places_ = {};
};

class AddedTokens {
 public:
  // A byte range of a text: an added token, or what is between them (id < 0).
  struct Part {
    size_t begin, end;
    int32_t id;
  };

  AddedTokens() = default;
  // Assigns each token its id: the vocabulary's, or the next free one after it. Throws Error if the file disagrees.
  AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary, const Normalizer& normalizer,
              const std::string& where);

  // Parts of a raw text and of a normalised one, in order, none of them empty. They may overlap if a token that
  // absorbs white space meets one that begins with it, as in the oracle.
  void split_raw(std::string_view text, std::vector<Part>& parts) const { split(raw_, text, parts); }
  void split_normalized(std::string_view text, std::vector<Part>& parts) const { split(normalized_, text, parts); }

  [[nodiscard]] std::optional<int32_t> id(std::string_view content) const;
  [[nodiscard]] const std::string* content(int32_t id) const;  // null pointer if no added token has this id
  [[nodiscard]] int32_t id_limit() const noexcept { return id_limit_; }
  [[nodiscard]] size_t longest() const noexcept { return longest_; }  // bytes that one of them matches

 private:
  // The patterns of one kind; trie values are indices into `tokens`, and these are indices into tokens_.
  struct Matcher {
    ByteTrie trie;
    std::vector<size_t> tokens;
    std::array<bool, 256> starts{};  // bytes a pattern begins with
  };
  struct Match {
    size_t end = 0;
    ptrdiff_t token = -1;
  };
  void build(Matcher& matcher, bool normalized, const Normalizer& normalizer, const std::string& where);
  [[nodiscard]] static Match longest_at(const Matcher& matcher, std::string_view text, size_t at) noexcept;
  void split(const Matcher& matcher, std::string_view text, std::vector<Part>& parts) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, int32_t, SecretHash> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  Matcher raw_, normalized_;
  int32_t id_limit_ = 0;
  size_t longest_ = 0;
};

}  // namespace exeunt
