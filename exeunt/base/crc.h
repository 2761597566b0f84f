// SPDX-License-Identifier: Apache-2.0
// The checksum of zip archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace exeunt {

// Readers verify checksums. Only fuzzers skip them, because they would never guess one.
enum class CrcCheck { verify, skip };

// CRC-32, by zlib.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes) noexcept;

}  // namespace exeunt
