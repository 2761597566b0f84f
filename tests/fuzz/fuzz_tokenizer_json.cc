// SPDX-License-Identifier: Apache-2.0
// Bytes as tokenizer.json of any family. What is accepted must tokenize: ids within the vocabulary, lists of one
// length, no more tokens than asked for, and the same answer twice.
#include "exeunt/text/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace exeunt;

std::unique_ptr<const Tokenizer> make(std::string_view text) {
  TokenizerJson json = parse_tokenizer_json(text, "input");
  if (json.model_type == "Unigram") return make_unigram_tokenizer(std::move(json));
  if (json.model_type == "BPE") return make_byte_bpe_tokenizer(std::move(json));
  return make_wordpiece_tokenizer(std::move(json));
}

void try_text(const Tokenizer& tokenizer, std::string_view text, std::optional<std::string_view> pair) {
  const EncodeOptions options{.max_length = 24};
  read_or_refuse([&] {  // a template may need more than 24 tokens
    const Encoding out = tokenizer.encode(text, pair, options);
    check(out.ids.size() == out.types.size() && out.ids.size() == out.offsets.size(), "lists of one length");
    for (const int32_t id : out.ids) check(id >= 0 && id < tokenizer.vocabulary(), "ids within the vocabulary");
    for (const auto& [begin, end] : out.offsets) check(begin <= end && end <= text.size() + 64, "offsets in the text");
    check(tokenizer.encode(text, pair, options).ids == out.ids, "the same text, the same ids");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  return read_or_refuse([&] {
    const auto tokenizer = make(text);
    try_text(*tokenizer, "The [MASK] caf\u00E9 <s>  \u4E2D\u6587\uFB01 \U0001F600!", std::nullopt);
    try_text(*tokenizer, text.substr(0, 200), "\u1E69a\u0301 A1,000 \xFF");
    for (int32_t id = -1; id < 4; ++id) {
      const std::string token = tokenizer->token(id);
      if (!token.empty()) check(tokenizer->id(token).has_value(), "every token has an id");
    }
  });
}
