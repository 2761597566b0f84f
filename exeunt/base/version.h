// SPDX-License-Identifier: Apache-2.0
// Which Exeunt this is. The number stands once, in the top CMakeLists.txt.
#pragma once

#include <string_view>

namespace exeunt {

[[nodiscard]] std::string_view version() noexcept;  // "0.1.0"

// The commit it was built from, with a final "+" if files were changed since; empty outside a git checkout.
[[nodiscard]] std::string_view commit() noexcept;

}  // namespace exeunt
