// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/version.h"

#include <regex>
#include <string>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Version, IsVersionOfBuild) {
  EXPECT_TRUE(std::regex_match(std::string(version()), std::regex(R"(\d+\.\d+\.\d+)")));
  EXPECT_EQ(version(), EXEUNT_EXPECTED_VERSION);
}

TEST(Version, CommitIsHexWithAMarkForChangesOrUnknown) {
  EXPECT_TRUE(std::regex_match(std::string(commit()), std::regex(R"(([0-9a-f]{12,40}\+?)?)"))) << commit();
}

TEST(Version, TimeIsInUtcToTheSecond) {
  EXPECT_TRUE(std::regex_match(now_rfc3339(), std::regex(R"(20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ)")))
      << now_rfc3339();
}

}  // namespace
}  // namespace exeunt
