// SPDX-License-Identifier: Apache-2.0
// Files of the repository that are part of the server; written by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace exeunt {

// "playground.html", "playground.css", "playground.js", "openapi.json"; empty for any other name.
[[nodiscard]] std::string_view serve_asset(std::string_view name) noexcept;

}  // namespace exeunt
