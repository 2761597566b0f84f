// SPDX-License-Identifier: Apache-2.0
// What a request's head must look like before anything else reads it. Two programs that read one head in two ways are
// how requests are smuggled past a proxy, so whatever RFC 9112 leaves to taste is refused here.
#pragma once

#include <cstddef>
#include <string_view>

namespace exeunt::serve {

inline constexpr size_t kMaxHeadBytes = 16384;
inline constexpr size_t kMaxFields = 100;

// `head` ends in the empty line. Throws Refusal: 400, or 431 for too many fields.
void check_head(std::string_view head);

}  // namespace exeunt::serve
