// SPDX-License-Identifier: Apache-2.0
// The version, defined in the top-level CMakeLists.txt.
#pragma once

#include <string_view>

namespace exeunt {

[[nodiscard]] std::string_view version() noexcept;  // "0.1.0"

// The commit it was built from, with a trailing "+" if there were uncommitted changes; empty outside a git checkout.
[[nodiscard]] std::string_view commit() noexcept;

}  // namespace exeunt
