// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/version.h"

#include "generated/version.h"

namespace exeunt {

std::string_view version() noexcept {
  return EXEUNT_VERSION;
}

std::string_view commit() noexcept {
  return EXEUNT_COMMIT;
}

}  // namespace exeunt
