// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/crc.h"

#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc, KnownChecksums) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32c({}), 0U);
  // RFC 3720, B.4: 32 bytes of zeroes, of ones, and rising.
  std::vector<std::byte> block(32);
  EXPECT_EQ(crc32c(block), 0x8A9136AAU);
  block.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(block), 0x62A8AB43U);
  for (size_t i = 0; i < 32; ++i) block[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(block), 0x46DD794EU);
  EXPECT_EQ(mask_crc(0), 0xa282ead8U);
  EXPECT_EQ(mask_crc(0x8000U), 0xa282ead9U);
}

TEST(Crc, TheInstructionsAgreeWithTheTable) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(4099);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t begin = 0; begin < 16; ++begin) {
    for (size_t size = 0; size + begin <= bytes.size(); size = size < 300 ? size + 1 : size * 2 + 1) {
      const auto part = std::span(bytes).subspan(begin, size);
      EXPECT_EQ(crc32(part), crc32_plain(part)) << begin << " " << size;
      EXPECT_EQ(crc32c(part), crc32c_plain(part)) << begin << " " << size;
    }
  }
}

}  // namespace
}  // namespace exeunt
