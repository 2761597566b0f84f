// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/added_tokens.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

// The code point that ends right before byte `end`, and where it begins.
std::pair<char32_t, size_t> code_point_before(std::string_view text, size_t end) noexcept {
  const size_t at = last_code_point(text.substr(0, end));
  return {decode_utf8(text.substr(at)).code_point, at};
}

bool word_before(std::string_view text, size_t at) noexcept {
  return at > 0 && unicode::is_word(code_point_before(text, at).first);
}

bool word_behind(std::string_view text, size_t at) noexcept {
  return at < text.size() && unicode::is_word(decode_utf8(text.substr(at)).code_point);
}

// Not beyond `done`, or a token that is white space itself would go through all of it each time.
size_t skip_space_back(std::string_view text, size_t at, size_t done) noexcept {
  while (at > done) {
    const auto [c, begin] = code_point_before(text, at);
    if (!unicode::is_space(c)) break;
    at = begin;
  }
  return at;
}

size_t skip_space(std::string_view text, size_t at) noexcept {
  while (at < text.size()) {
    const Decoded next = decode_utf8(text.substr(at));
    if (!unicode::is_space(next.code_point)) break;
    at += next.bytes;
  }
  return at;
}

}  // namespace

void read_added_token(JsonObject& object, AddedToken& token) {
  token.content = object.string("content");
  token.single_word = object.boolean_or("single_word", false);
  token.lstrip = object.boolean_or("lstrip", false);
  token.rstrip = object.boolean_or("rstrip", false);
  token.normalized = object.boolean_or("normalized", token.normalized);
}

std::vector<AddedToken> parse_added_tokens(const Json& value, const std::string& where) {
  if (!value.is_array()) throw_bad_file(where, "got {}, want a list", glimpse(value));
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < value.size(); ++i) {
    JsonObject object(value[i], fmt::format("{}[{}]", where, i));
    AddedToken token;
    token.id = static_cast<int32_t>(object.integer("id", 0, kMaxTokenId));
    token.special = object.boolean_or("special", false);
    token.normalized = !token.special;
    read_added_token(object, token);
    object.finish();
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void AddedTokenList::add(AddedToken token) {
  if (places_.emplace(token.content, tokens_.size()).second) tokens_.push_back(std::move(token));
}

void AddedTokenList::put(AddedToken token) {
  const auto found = places_.find(token.content);
  if (found == places_.end()) return add(std::move(token));
  AddedToken& same = tokens_[found->second];
  if (!token.id) token.id = same.id;
  same = std::move(token);
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary, const Normalizer& normalizer,
                         const std::string& where) {
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  auto next = static_cast<int32_t>(vocabulary.count());
  for (AddedToken& token : tokens) {
    const auto known = vocabulary.id(token.content);
    const int32_t given = known ? *known : next++;
    if (token.id && *token.id != given) {
      throw Error(Code::bad_file,
                  fmt::format("{}: added token '{}': got id {}, want {}", where, token.content, *token.id, given),
                  known ? "that is its id in the vocabulary" : "new tokens are numbered from the vocabulary's size on");
    }
    if (!known && vocabulary.has(given)) {
      throw_bad_file(where, "added token '{}': id {} is already that of '{}'", token.content, given,
                     vocabulary.token(given));
    }
    if (!by_content_.emplace(token.content, given).second) {
      throw_bad_file(where, "duplicate added token '{}'", token.content);
    }
    token.id = given;
    id_limit_ = std::max(id_limit_, given + 1);
  }
  // If two tokens are equal after normalisation, the last one wins; special tokens come before the others.
  std::ranges::stable_sort(tokens, [](const auto& a, const auto& b) { return a.special > b.special; });
  tokens_ = std::move(tokens);
  for (size_t i = 0; i < tokens_.size(); ++i) by_id_.emplace(*tokens_[i].id, i);
  build(raw_, false, normalizer, where);
  build(normalized_, true, normalizer, where);
}

void AddedTokens::build(Matcher& matcher, bool normalized, const Normalizer& normalizer, const std::string& where) {
  std::vector<std::string> patterns;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].normalized != normalized) continue;
    NormalizedText text(tokens_[i].content, 0);
    if (normalized) normalize(normalizer, text);
    if (text.empty()) continue;  // nothing left to match
    if (text.size() > kMaxTokenBytes)
      throw_bad_file(where, "got an added token of {} bytes, want at most {}", text.size(), kMaxTokenBytes);
    longest_ = std::max(longest_, text.size());
    matcher.starts[static_cast<uint8_t>(text.text()[0])] = true;
    patterns.emplace_back(text.text());
    matcher.tokens.push_back(i);
  }
  const std::vector<std::string_view> keys(patterns.begin(), patterns.end());
  matcher.trie = ByteTrie(keys);
}

AddedTokens::Match AddedTokens::longest_at(const Matcher& matcher, std::string_view text, size_t at) noexcept {
  Match match;
  uint32_t node = ByteTrie::kRoot;
  for (size_t end = at; end < text.size() && matcher.trie.step(node, static_cast<uint8_t>(text[end]));) {
    ++end;
    if (const int32_t value = matcher.trie.value(node); value >= 0) {
      match = {end, static_cast<ptrdiff_t>(matcher.tokens[static_cast<size_t>(value)])};
    }
  }
  return match;
}

void AddedTokens::split(const Matcher& matcher, std::string_view text, std::vector<Part>& parts) const {
  size_t done = 0;  // everything before it is in `parts`
  for (size_t at = 0; !matcher.tokens.empty() && at < text.size();) {
    if (!matcher.starts[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = longest_at(matcher, text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.token)];
    size_t begin = at;
    size_t end = match.end;
    at = match.end;  // the search continues after the match itself, whether it was rejected or extended
    if (token.single_word && (word_before(text, begin) || word_behind(text, end))) continue;
    if (token.lstrip) begin = std::max(skip_space_back(text, begin, done), done);
    if (token.rstrip) end = skip_space(text, std::max(end, done));  // up to `done` a token before took all space
    if (done < begin) parts.push_back({done, begin, -1});
    parts.push_back({begin, end, *token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
}

std::optional<int32_t> AddedTokens::id(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* AddedTokens::content(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second].content;
}

}  // namespace exeunt
