// SPDX-License-Identifier: Apache-2.0
// Extended grapheme clusters (Unicode annex 29), as far as the oracle's normalisation distinguishes them: pairs of
// regional indicators are omitted, because no cluster with one is small enough to matter there.
#pragma once

#include <cstddef>
#include <string_view>

namespace exeunt {

// Bytes of the cluster at the start of `text`, which must be valid UTF-8 and not empty.
[[nodiscard]] size_t grapheme_bytes(std::string_view text) noexcept;

}  // namespace exeunt
