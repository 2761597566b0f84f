// SPDX-License-Identifier: Apache-2.0
// One way in per family and file format; load_tokenizer chooses among them. All throw Error on bad files.
#pragma once

#include <filesystem>
#include <memory>

#include "exeunt/text/tokenizer.h"
#include "exeunt/text/tokenizer_json.h"

namespace exeunt {

[[nodiscard]] std::unique_ptr<const Tokenizer> make_wordpiece_tokenizer(TokenizerJson json);
[[nodiscard]] std::unique_ptr<const Tokenizer> make_unigram_tokenizer(TokenizerJson json);
[[nodiscard]] std::unique_ptr<const Tokenizer> make_byte_bpe_tokenizer(TokenizerJson json);

// vocab.txt; spiece.model (a spiece.vocab beside it is checked against it); vocab.json with merges.txt.
[[nodiscard]] std::unique_ptr<const Tokenizer> read_wordpiece_tokenizer(const std::filesystem::path& vocab_txt,
                                                                        const TokenizerConfig& config);
[[nodiscard]] std::unique_ptr<const Tokenizer> read_unigram_tokenizer(const std::filesystem::path& spiece_model,
                                                                      const TokenizerConfig& config);
[[nodiscard]] std::unique_ptr<const Tokenizer> read_byte_bpe_tokenizer(const std::filesystem::path& vocab_json,
                                                                       const std::filesystem::path& merges_txt,
                                                                       const TokenizerConfig& config);

}  // namespace exeunt
