// SPDX-License-Identifier: Apache-2.0
// Pre-tokenization of GPT-2 and RoBERTa: text is split into words, and bytes are written as printable characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exeunt {

// The character that represents a byte in vocab.json and merges.txt: itself if it is printable Latin-1, else one of
// U+0100 to U+0143; a space is U+0120 (Ġ).
[[nodiscard]] char32_t byte_character(uint8_t byte) noexcept;

// The bytes a token represents; nothing if it contains a character that represents none.
[[nodiscard]] std::optional<std::string> token_bytes(std::string_view token);

// End of the word that begins at byte `at` of `text` (valid UTF-8, at < size), by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// which covers every text without a gap.
[[nodiscard]] size_t word_end(std::string_view text, size_t at) noexcept;

}  // namespace exeunt
