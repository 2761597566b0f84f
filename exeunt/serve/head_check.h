// SPDX-License-Identifier: Apache-2.0
// Checks a request's header before it is parsed. Request smuggling lives on headers that two parsers read differently,
// so whatever RFC 9112 leaves open is rejected.
#pragma once

#include <cstddef>
#include <string_view>

namespace exeunt::serve {

inline constexpr size_t kMaxHeadBytes = 8192;
inline constexpr size_t kMaxFields = 100;

// `head` ends in the empty line. Throws Refusal: 400, or 431 for too many fields.
void check_head(std::string_view head);

}  // namespace exeunt::serve
