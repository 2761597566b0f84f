// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/error.h"

namespace exeunt {

void check(bool condition, std::string_view what, std::source_location place) {
  if (!condition)
    throw std::logic_error(fmt::format("internal error: {} ({}:{})", what, place.file_name(), place.line()));
}

}  // namespace exeunt
