// SPDX-License-Identifier: Apache-2.0
// From text to token ids, for the three tokenizer families. Ids are equal to those of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt {

// Half-open range of code points of the original text (of the first or second text, by the token's sequence).
using Offset = std::pair<uint32_t, uint32_t>;

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  std::vector<Offset> offsets;  // (0, 0) for special tokens
  bool truncated = false;
};

struct EncodeOptions {
  int max_length = 512;  // special tokens included; longest_first truncation
  bool special_tokens = true;
  bool keep_end = false;  // of one text alone: what is too long loses its beginning
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // `pair` absent: one text. Invalid UTF-8 is replaced (U+FFFD per maximal subpart). Safe to call from many threads.
  [[nodiscard]] virtual Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                                        const EncodeOptions& options) const = 0;
  [[nodiscard]] virtual int vocabulary() const noexcept = 0;
  [[nodiscard]] virtual std::string_view family() const noexcept = 0;  // "wordpiece", "unigram", "bpe"
  [[nodiscard]] virtual std::string token(int32_t id) const = 0;       // "" if there is none
  [[nodiscard]] virtual std::optional<int32_t> id(std::string_view token) const = 0;
};

// Who splits texts by a spiece.model without tokenizer.json: SentencePiece, as in the original early-exit
// systems, or what Hugging Face's tokenizers make of the file (docs/decisions/0009).
enum class SpieceReader { spiece, tokenizers };
[[nodiscard]] std::optional<SpieceReader> spiece_reader_named(std::string_view name) noexcept;

// From a model folder: tokenizer.json if there is one, else vocab.txt, spiece.model (30k-clean.model), or
// vocab.json + merges.txt; tokenizer_config.json and special_tokens_map.json are honoured. `reader`, for spiece.model
// alone: as the folder says (default_spiece_reader) unless given. Throws Error.
[[nodiscard]] std::unique_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                              std::optional<SpieceReader> reader = {});

// True if the folder's tokenizer is a spiece.model without tokenizer.json, so that there are two ways to read it.
[[nodiscard]] bool has_bare_spiece(const std::filesystem::path& folder);
// What tokenizer_config.json says ("backend", as transformers 5 writes it); else `tokenizers` for a file that
// transformers 4.34 or later wrote, which lists its added tokens, and `spiece` for older ones and for none.
[[nodiscard]] SpieceReader default_spiece_reader(const std::filesystem::path& folder);

// sha256 over the names and bytes of the files load_tokenizer reads there: equal hashes, equal tokens. It binds traces
// and feature files to their tokenizer. Throws Error if there is none.
[[nodiscard]] std::string tokenizer_sha256(const std::filesystem::path& folder);

}  // namespace exeunt
