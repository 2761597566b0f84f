// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: the parts all families share are read here, the model and its pre-tokenizer by the family.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/text/pipeline.h"

namespace exeunt {

struct TokenizerJson {
  std::string where;       // the file, for error messages
  Pipeline::Parts parts;   // added tokens, normaliser, post-processor
  Json pre_tokenizer;      // null if there is none
  Json model;              // an object without its "type", which is here:
  std::string model_type;  // "WordPiece", "Unigram" or "BPE"
};

// "truncation" and "padding" are left to the caller of encode, "decoder" is ignored. Throws Error.
[[nodiscard]] TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& where);

// Settings from tokenizer_config.json and special_tokens_map.json, for folders without tokenizer.json.
struct TokenizerConfig {
  std::optional<bool> do_lower_case, strip_accents, tokenize_chinese_chars;  // BERT
  std::optional<bool> keep_accents, remove_space;                            // ALBERT
  std::optional<bool> add_prefix_space;                                      // RoBERTa
  std::optional<std::string> cls_token, sep_token, unk_token, pad_token, mask_token, bos_token, eos_token;
  std::vector<AddedToken> added;  // "added_tokens_decoder", "additional_special_tokens", and flags given to the above
};
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

// One constructor per family and file format; load_tokenizer selects one. All throw Error on bad files.
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
