// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/crc32c.h"

#include <bit>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

uint32_t crc32c(std::span<const std::byte> bytes) {
  return std::rotl(masked_crc32c(bytes) - 0xa282ead8U, 15);
}

TEST(Crc32c, KnownChecksums) {
  EXPECT_EQ(masked_crc32c({}), 0xa282ead8U);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xE3069283U);
  // RFC 3720, B.4: 32 bytes of zeroes, of ones, and rising.
  std::vector<std::byte> block(32);
  EXPECT_EQ(crc32c(block), 0x8A9136AAU);
  block.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(block), 0x62A8AB43U);
  for (size_t i = 0; i < 32; ++i) block[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(block), 0x46DD794EU);
}

}  // namespace
}  // namespace exeunt
