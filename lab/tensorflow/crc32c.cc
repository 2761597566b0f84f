// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/crc32c.h"

#include <array>
#include <bit>

#include "exeunt/model/bytes.h"

namespace exeunt {
namespace {

// kCrcTables[k][b] is the effect of byte b followed by k bytes, so that eight bytes are processed per step.
constexpr auto kCrcTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}();

}  // namespace

uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept {
  uint32_t crc = ~0U;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load_at<uint64_t>(bytes, 0) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

}  // namespace exeunt
