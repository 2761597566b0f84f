// SPDX-License-Identifier: Apache-2.0
// The checksum of TensorFlow's files, which zlib does not have.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/crc.hpp>

namespace exeunt {

// CRC-32C, rotated and offset as TensorFlow and LevelDB store it.
[[nodiscard]] inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, ~0U, ~0U, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(crc.checksum(), 15) + 0xa282ead8U;
}

}  // namespace exeunt
