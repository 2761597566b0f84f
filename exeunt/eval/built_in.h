// SPDX-License-Identifier: Apache-2.0
// Files embedded in the command: the report's style and script, the papers' published figures, and ELUE's baseline.
#pragma once

#include <string_view>

namespace exeunt {

// By file name ("report.css", "deebert.json"); empty if there is none.
[[nodiscard]] std::string_view built_in_file(std::string_view name) noexcept;

}  // namespace exeunt
