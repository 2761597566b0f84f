// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/number.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Number, ParsesWholeTextOnly) {
  EXPECT_EQ(number_of<int>("-3"), -3);
  EXPECT_EQ(number_of<int>("007"), 7);
  EXPECT_EQ(number_of<double>("1e-3"), 1e-3);
  EXPECT_EQ(number_of<float>("0.3"), 0.3F);
  for (const char* text : {"", " 3", "3 ", "+3", "3x", "0x3", "3.0", "three", "-", "99999999999999999999"}) {
    EXPECT_FALSE(number_of<int64_t>(text)) << text;
  }
  for (const char* text : {"", " 3", "3 ", "+3", "3x", "0x3", "1,5", "inf", "nan", "-inf", "1e999", "."}) {
    EXPECT_FALSE(number_of<double>(text)) << text;
  }
  EXPECT_FALSE(number_of<uint32_t>("-1"));
  EXPECT_FALSE(number_of<int>("2147483648"));
  EXPECT_EQ(number_of<int>(std::string_view("12/8").substr(0, 2)), 12) << "what lies behind the text is not read";
}

TEST(Number, ParsesHexadecimal) {
  EXPECT_EQ(number_of<uint64_t>("fF", 16), 255U);
  EXPECT_EQ(number_of<uint64_t>("ffffffffffffffff", 16), std::numeric_limits<uint64_t>::max());
  for (const char* text : {"", "0xff", "-1", "+1", " 1", "1 ", "g", "10000000000000000"}) {
    EXPECT_FALSE(number_of<uint64_t>(text, 16)) << text;
  }
}

TEST(Number, ShortDoubleIsShortestDecimal) {
  EXPECT_EQ(short_double(0.3F), 0.3);
  EXPECT_EQ(short_double(1e-12F), 1e-12);
  EXPECT_EQ(short_double(-0.98F), -0.98);
  EXPECT_EQ(static_cast<float>(short_double(0.1F)), 0.1F);
  EXPECT_EQ(short_double(std::numeric_limits<float>::infinity()), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace exeunt
