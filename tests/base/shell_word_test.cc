// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/shell_word.h"

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(shell_word("runs/my-data_2.csv"), "runs/my-data_2.csv");
  EXPECT_EQ(shell_word("a,b"), "a,b");
}

TEST(ShellWord, BlanksAndSignsAreQuoted) {
  EXPECT_EQ(shell_word("runs/my data"), "'runs/my data'");
  EXPECT_EQ(shell_word("$(rm x);"), "'$(rm x);'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("Größe"), "'Größe'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace exeunt
