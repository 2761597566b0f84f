// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/ascii.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;

TEST(Ascii, LowerKeepsOtherBytes) {
  EXPECT_EQ(lower("@AZ[`az{ÄÉ"), "@az[`az{ÄÉ");
  EXPECT_EQ(lower(""), "");
}

TEST(Ascii, TrimmedRemovesBlanksAtEnds) {
  EXPECT_EQ(trimmed("\t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \t\r\n\f\v"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("\n a\n", " \t"), "\n a\n") << "only these";
}

TEST(Ascii, SplitReturnsOnePartMoreThanMarks) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",a,,", ','), ElementsAre("", "a", "", ""));
}

}  // namespace
}  // namespace exeunt
