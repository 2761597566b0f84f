// SPDX-License-Identifier: Apache-2.0
// The tokens of one word.
#pragma once

#include <cstdint>

namespace exeunt {

// A token of one word: bytes [begin, end) of it.
struct WordToken {
  int32_t id;
  uint32_t begin, end;
};

}  // namespace exeunt
