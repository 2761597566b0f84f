// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/crc.h"

#include <zlib.h>

namespace exeunt {

uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace exeunt
