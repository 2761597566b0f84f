// SPDX-License-Identifier: Apache-2.0
// The two checksums of other systems' files: CRC-32 in zip archives, CRC-32C in TensorFlow checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace exeunt {

// Readers verify checksums. Only fuzzers skip them, because they would never guess one.
enum class CrcCheck { verify, skip };

// Polynomial 0x04C11DB7. `before` is the checksum of the bytes that came before these.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0) noexcept;
[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes) noexcept;  // polynomial 0x1EDC6F41

// Table-based versions; the two above use the CPU's instructions if available and are tested against these.
[[nodiscard]] uint32_t crc32_plain(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] uint32_t crc32c_plain(std::span<const std::byte> bytes) noexcept;

// TensorFlow and LevelDB store a masked (rotated, offset) CRC-32C, because a CRC over data with embedded CRCs is weak.
[[nodiscard]] constexpr uint32_t mask_crc(uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace exeunt
