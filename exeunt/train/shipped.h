// SPDX-License-Identifier: Apache-2.0
// The recipes of the folder recipes/, compiled in.
#pragma once

#include <string_view>

namespace exeunt {

// "exeunt.json" → its text; empty if there is no such file.
[[nodiscard]] std::string_view shipped_recipe(std::string_view name) noexcept;

}  // namespace exeunt
