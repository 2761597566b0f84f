// SPDX-License-Identifier: Apache-2.0
// Bytes as a vocabulary (lines up to an empty one) and a text. The fast search must agree with the plain definition,
// and the tokenizer must take any bytes as text.
#include <algorithm>

#include "exeunt/base/utf8.h"
#include "exeunt/text/normalized_text.h"
#include "exeunt/text/tokenizer_json.h"
#include "exeunt/text/wordpiece.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace exeunt;
using Pairs = std::vector<std::pair<std::string, int32_t>>;

constexpr size_t kMaxChars = 20;

// The definition: from the left, the longest piece there is; none means that the whole word is unknown (id 0).
std::vector<int32_t> cut_plainly(const Vocabulary& vocabulary, std::string_view word) {
  std::vector<int32_t> ids;
  if (count_code_points(word) > kMaxChars) return {0};
  for (size_t begin = 0; begin < word.size();) {
    size_t end = word.size();
    std::optional<int32_t> found;
    for (; end > begin && !found; --end) {
      found = vocabulary.id(std::string(begin > 0 ? "##" : "").append(word.substr(begin, end - begin)));
      if (found) break;
    }
    if (!found) return {0};
    ids.push_back(*found);
    begin = end;
  }
  return ids;
}

void compare(const Vocabulary& vocabulary, const WordPieceModel& model, std::string_view word) {
  std::vector<WordToken> pieces;
  model.cut(word, pieces);
  const std::vector<int32_t> wanted = cut_plainly(vocabulary, word);
  check(pieces.size() == wanted.size(), "as many pieces as by definition");
  for (size_t i = 0; i < pieces.size(); ++i) check(pieces[i].id == wanted[i], "the pieces of the definition");
  check(pieces.front().begin == 0 && pieces.back().end == word.size(), "pieces cover the word");
  const int32_t whole = model.whole(word);
  check(whole < 0 || (wanted.size() == 1 && wanted[0] == whole), "a whole word is its only piece");
}

void run(std::string_view lines, std::string_view text) {
  Pairs tokens = {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
  Json vocab = {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string token = replace_invalid_utf8(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (vocab.contains(token)) continue;
    const auto id = static_cast<int32_t>(tokens.size());
    vocab[token] = id;
    tokens.emplace_back(std::move(token), id);
  }
  const Vocabulary vocabulary(tokens, "input");
  const WordPieceModel model(vocabulary, {.max_chars = kMaxChars});
  const std::string valid = replace_invalid_utf8(text);
  for (size_t at = 0; at < valid.size();) {
    const size_t end = std::min(valid.find(' ', at), valid.size());
    if (end > at) compare(vocabulary, model, std::string_view(valid).substr(at, end - at));
    at = end + 1;
  }

  TokenizerJson json;
  json.where = json.parts.where = "input";
  json.parts.normalizer = {BertCleanup{}};
  json.parts.post = bert_post_processor(1, 2);
  json.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  json.model = {{"unk_token", "[UNK]"}, {"vocab", vocab}};
  const auto tokenizer = make_wordpiece_tokenizer(std::move(json));
  const EncodeOptions all{.max_length = 1 << 30};
  const Encoding raw = tokenizer->encode(text, text, all);
  check(raw.ids == tokenizer->encode(valid, valid, all).ids, "broken UTF-8 is U+FFFD");
  const auto code_points = static_cast<uint32_t>(count_code_points(valid));
  for (const auto& [begin, end] : raw.offsets) check(begin <= end && end <= code_points, "offsets in the text");
  const Encoding cut = tokenizer->encode(text, std::nullopt, {.max_length = 8});
  check(cut.ids.size() <= 8, "no more tokens than asked for");
  check(std::equal(cut.ids.begin(), cut.ids.end() - 1, raw.ids.begin()), "truncation keeps the start");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  const size_t blank = std::min(input.find("\n\n"), input.size());
  return read_or_refuse([&] { run(input.substr(0, blank), input.substr(std::min(blank + 2, input.size()))); });
}
