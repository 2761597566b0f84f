// SPDX-License-Identifier: Apache-2.0
// Words of the commands that we tell people to type.
#pragma once

#include <string>
#include <string_view>

namespace exeunt {

// A word as a shell takes it: as it is, or in quotes where a blank or a sign would be read as something else.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace exeunt
