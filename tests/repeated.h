// SPDX-License-Identifier: Apache-2.0
// Long inputs for parsers.
#pragma once

#include <string>
#include <string_view>

namespace exeunt {

inline std::string repeated(std::string_view part, size_t times) {
  std::string out;
  out.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace exeunt
