// SPDX-License-Identifier: Apache-2.0
// The files of the folder recipes/, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace exeunt {

// "exeunt.json" → its text; empty if there is no such file.
[[nodiscard]] std::string_view shipped_recipe(std::string_view name) noexcept;
[[nodiscard]] std::span<const std::string_view> shipped_recipe_names() noexcept;

}  // namespace exeunt
