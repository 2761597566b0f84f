// SPDX-License-Identifier: Apache-2.0
// The two checksums of other systems' model files: CRC-32 in zip archives, CRC-32C in TensorFlow checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace exeunt {

// Readers verify. Skipping is for the fuzzers, which would never guess a right checksum.
enum class CrcCheck { verify, skip };

[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes) noexcept;   // polynomial 0x04C11DB7
[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes) noexcept;  // polynomial 0x1EDC6F41

// The same by table; crc32c, which uses the CPU's instruction where there is one, is tested against it.
[[nodiscard]] uint32_t crc32c_plain(std::span<const std::byte> bytes) noexcept;

// TensorFlow and LevelDB store a CRC-32C turned and shifted, so that data that hold checksums keep good ones.
[[nodiscard]] constexpr uint32_t mask_crc(uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace exeunt
