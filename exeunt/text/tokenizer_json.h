// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: the parts all families share are read here, the model and its pre-tokenizer by the family.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

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

}  // namespace exeunt
