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

}  // namespace
}  // namespace exeunt
