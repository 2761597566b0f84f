// SPDX-License-Identifier: Apache-2.0
// The checksum of TensorFlow's files, which zlib does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace exeunt {

// CRC-32C (polynomial 0x1EDC6F41), rotated and offset as TensorFlow and LevelDB store it.
[[nodiscard]] uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace exeunt
