// SPDX-License-Identifier: Apache-2.0
// Timestamps for files.
#pragma once

#include <string>

namespace exeunt {

// "2026-03-01T12:34:56Z"
[[nodiscard]] std::string now_rfc3339();

}  // namespace exeunt
