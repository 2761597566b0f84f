// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/version.h"

#include <ctime>

#include "generated/version.h"

namespace exeunt {

std::string_view version() noexcept {
  return EXEUNT_VERSION;
}

std::string_view commit() noexcept {
  return EXEUNT_COMMIT;
}

std::string now_rfc3339() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace exeunt
