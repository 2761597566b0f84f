// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/error.h"

namespace exeunt {

void check(bool condition, std::string_view what, const char* file, int line) {
  if (!condition) throw std::logic_error(fmt::format("internal error: {} ({}:{})", what, file, line));
}

}  // namespace exeunt
