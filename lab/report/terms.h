// SPDX-License-Identifier: Apache-2.0
// The words of reports, explained in a sentence each: what a reader sees when pointing at one.
#pragma once

#include <string>
#include <string_view>

namespace exeunt {

// Of an exit rule ("nentropy") or a figure ("agreement"); empty for a word that needs no explanation.
[[nodiscard]] std::string_view explained(std::string_view term) noexcept;

// The word as HTML, with its explanation on hover. `shown` is what stands there, by default the word itself.
[[nodiscard]] std::string term_html(std::string_view term, std::string_view shown = {});

}  // namespace exeunt
