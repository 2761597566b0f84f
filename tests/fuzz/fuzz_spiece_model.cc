// SPDX-License-Identifier: Apache-2.0
// Bytes as a spiece.model; what is accepted must tokenize any text, its own bytes among them.
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/tokenizer_json.h"
#include "tests/fuzz/encode.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::SpieceModel model = exeunt::parse_spiece_model(exeunt::bytes_of(data, size), "input");
    const auto tokenizer = exeunt::make_unigram_tokenizer(model, {}, "input");
    exeunt::encode_and_check(*tokenizer, exeunt::text_of(data, size));
    exeunt::encode_and_check(*tokenizer, "well-known 1,000 caf\u00E9 e\u0301\u200D\u00BD ``x'' [MASK] \u4E2D\uFF21");
  });
}
