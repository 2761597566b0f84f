// SPDX-License-Identifier: Apache-2.0
// Files that are part of the libraries, by their name; empty if there is no such file.
#pragma once

#include <string_view>

namespace exeunt {

[[nodiscard]] std::string_view papers_file(std::string_view name) noexcept;  // the published figures
[[nodiscard]] std::string_view elue_file(std::string_view name) noexcept;    // its baseline and its module file
[[nodiscard]] std::string_view report_file(std::string_view name) noexcept;  // style and script of the page

}  // namespace exeunt
