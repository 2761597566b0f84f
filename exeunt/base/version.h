// SPDX-License-Identifier: Apache-2.0
// What files record of their making: the version, defined in the top-level CMakeLists.txt, the commit and the time.
#pragma once

#include <string>
#include <string_view>

namespace exeunt {

[[nodiscard]] std::string_view version() noexcept;  // "0.1.0"

// The commit it was built from, with a trailing "+" if there were uncommitted changes; empty outside a git checkout.
[[nodiscard]] std::string_view commit() noexcept;

[[nodiscard]] std::string now_rfc3339();  // "2026-03-01T12:34:56Z"

}  // namespace exeunt
