// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <gtest/gtest.h>

#include "exeunt/base/gunzip.h"

namespace exeunt {
namespace {

TEST(Crc, KnownChecksums) {
  EXPECT_EQ(crc32(std::as_bytes(std::span(std::string_view("123456789")))), 0xCBF43926U);
  EXPECT_EQ(crc32({}), 0U);
}

}  // namespace
}  // namespace exeunt
