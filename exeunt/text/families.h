// SPDX-License-Identifier: Apache-2.0
// One constructor per family and file format; load_tokenizer selects one. All throw Error on bad files.
#pragma once

#include <filesystem>
#include <memory>

#include "exeunt/base/files.h"
#include "exeunt/text/tokenizer.h"
#include "exeunt/text/tokenizer_json.h"

namespace exeunt {

[[nodiscard]] std::unique_ptr<const Tokenizer> make_wordpiece_tokenizer(TokenizerJson json);
[[nodiscard]] std::unique_ptr<const Tokenizer> make_unigram_tokenizer(TokenizerJson json);
[[nodiscard]] std::unique_ptr<const Tokenizer> make_byte_bpe_tokenizer(TokenizerJson json);

// The same from files already in memory.
struct SpieceModel;
struct BpeFiles {
  std::string_view vocab_json, merges_txt;
  std::string vocab_where, merges_where;  // prefix error messages
};
[[nodiscard]] std::unique_ptr<const Tokenizer> make_unigram_tokenizer(const SpieceModel& model,
                                                                      const TokenizerConfig& config,
                                                                      const std::string& where);
// The same pieces cut by SentencePiece itself.
[[nodiscard]] std::unique_ptr<const Tokenizer> make_spiece_tokenizer(const SpieceModel& model,
                                                                     const TokenizerConfig& config,
                                                                     const std::string& where);
[[nodiscard]] std::unique_ptr<const Tokenizer> make_byte_bpe_tokenizer(const BpeFiles& files,
                                                                       const TokenizerConfig& config);

// vocab.txt; spiece.model (and compares a spiece.vocab next to it); vocab.json with merges.txt.
[[nodiscard]] std::unique_ptr<const Tokenizer> read_wordpiece_tokenizer(const ReadPath& vocab_txt,
                                                                        const TokenizerConfig& config);
[[nodiscard]] std::unique_ptr<const Tokenizer> read_unigram_tokenizer(const std::filesystem::path& spiece_model,
                                                                      const TokenizerConfig& config,
                                                                      SpieceReader reader);
[[nodiscard]] std::unique_ptr<const Tokenizer> read_byte_bpe_tokenizer(const ReadPath& vocab_json,
                                                                       const ReadPath& merges_txt,
                                                                       const TokenizerConfig& config);

}  // namespace exeunt
