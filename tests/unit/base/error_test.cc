// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Error, CarriesCodeMessageAndHint) {
  const Error error(Code::resources, "disk: full", "free some space");
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_STREQ(error.what(), "disk: full");
  EXPECT_EQ(error.hint(), "free some space");
}

TEST(Error, FailedCheckNamesCondition) {
  EXPECT_NO_THROW(check(true, "all is well"));
  try {
    check(false, "two is three");
    FAIL() << "no exception";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("internal error: two is three ("));
    EXPECT_THAT(error.what(), testing::HasSubstr("tests/unit/base/error_test.cc:"));
  }
}

}  // namespace
}  // namespace exeunt
