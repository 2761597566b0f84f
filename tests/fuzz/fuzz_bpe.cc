// SPDX-License-Identifier: Apache-2.0
// Parts between zero bytes. Three of them: vocab.json, merges.txt and a text, where what is accepted must tokenize.
// Two: merges ("a b" a line) and words, where the fast search must agree with the plain definition.
#include <algorithm>
#include <map>

#include "exeunt/base/utf8.h"
#include "exeunt/text/byte_bpe.h"
#include "exeunt/text/tokenizer_json.h"
#include "tests/fuzz/encode.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace exeunt;
using Pair = std::pair<int32_t, int32_t>;

std::vector<std::string_view> parts_of(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (;;) {
    parts.push_back(text.substr(0, text.find(mark)));
    if (parts.back().size() == text.size()) return parts;
    text.remove_prefix(parts.back().size() + 1);
  }
}

// Every byte's token first, then what the merges make of them.
struct Made {
  std::vector<std::pair<std::string, int32_t>> tokens;
  std::map<std::string, int32_t> ids;
  std::vector<BpeMerge> merges;
  std::map<Pair, std::pair<size_t, int32_t>> ranks;  // pair → rank and result; the last of equal merges counts

  int32_t id(const std::string& bytes) {
    const auto [place, fresh] = ids.emplace(bytes, static_cast<int32_t>(ids.size()));
    if (!fresh) return place->second;
    std::string token;
    for (const char c : bytes) append_utf8(token, byte_character(static_cast<uint8_t>(c)));
    tokens.emplace_back(token, place->second);
    return place->second;
  }
  explicit Made(std::string_view lines) {
    for (int byte = 0; byte < 256; ++byte) (void)id(std::string(1, static_cast<char>(byte)));
    for (const std::string_view line : parts_of(lines, '\n')) {
      const size_t blank = line.find(' ');
      if (blank == 0 || blank >= line.size() - 1 || line.size() > 64 || merges.size() == 64) continue;
      const std::string left(line.substr(0, blank));
      const std::string right(line.substr(blank + 1));
      if (!ids.contains(left) || !ids.contains(right)) continue;
      const BpeMerge merge{ids[left], ids[right], id(left + right)};
      ranks[{merge.left, merge.right}] = {merges.size(), merge.result};
      merges.push_back(merge);
    }
  }

  // The definition: join the best pair of all, one at a time.
  [[nodiscard]] std::vector<int32_t> slow(std::string_view word) const {
    std::vector<int32_t> symbols;
    for (const char c : word) symbols.push_back(ids.at(std::string(1, c)));
    for (;;) {
      auto best = ranks.end();
      size_t place = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks.find({symbols[i], symbols[i + 1]});
        if (found == ranks.end() || (best != ranks.end() && best->second.first <= found->second.first)) continue;
        best = found;
        place = i;
      }
      if (best == ranks.end()) return symbols;
      symbols[place] = best->second.second;
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
    }
  }
};

void compare(std::string_view lines, std::string_view words) {
  const Made made(lines);
  const ByteBpeModel model(Vocabulary(made.tokens, "input"), made.merges, {});
  ByteBpeModel::Scratch scratch;
  for (const std::string_view word : parts_of(words.substr(0, 2000), '\n')) {
    model.encode(word, scratch);
    std::vector<int32_t> got;
    size_t end = 0;
    for (const WordToken& token : scratch.tokens) {
      check(token.begin == end && token.end > end, "tokens follow each other");
      end = token.end;
      got.push_back(token.id);
    }
    check(end == word.size(), "tokens cover the word");
    check(got == made.slow(word), "the tokens of the definition");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return read_or_refuse([&] {
    const auto parts = parts_of(text_of(data, size), '\0');
    if (parts.size() == 2) compare(parts[0], parts[1]);
    if (parts.size() < 3) return;
    TokenizerConfig config;
    config.add_prefix_space = size % 2 == 0;
    const auto tokenizer = make_byte_bpe_tokenizer({parts[0], parts[1], "vocab.json", "merges.txt"}, config);
    encode_and_check(*tokenizer, parts[2]);
    encode_and_check(*tokenizer, parts[1]);
  });
}
