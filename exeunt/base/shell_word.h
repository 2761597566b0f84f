// SPDX-License-Identifier: Apache-2.0
// Quoting for the commands we suggest to users.
#pragma once

#include <string>
#include <string_view>

namespace exeunt {

// Quotes a word for the shell if it contains spaces or special characters.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace exeunt
