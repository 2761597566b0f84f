// SPDX-License-Identifier: Apache-2.0
// What messages suggest: the known word nearest to a mistyped one, and commands to type.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace exeunt {

// Levenshtein's: how many bytes to change, insert or remove.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` by edit distance, or empty if none is near enough to be a likely typo.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> known);

// "did you mean 'x'?" or, if nothing is near, "known: a, b, c".
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string> known);

// Quotes a word for the shell if it contains spaces or special characters.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace exeunt
