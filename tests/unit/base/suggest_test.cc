// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

const std::vector<std::string> kWords{"convert", "info", "tokenize"};

TEST(Suggest, SuggestsWordForTypo) {
  EXPECT_EQ(nearest("convret", kWords), "convert");
  EXPECT_EQ(nearest("tokenise", kWords), "tokenize");
  EXPECT_EQ(suggestion("inof", kWords), "did you mean 'info'?");
  EXPECT_EQ(nearest("ab", std::vector<std::string>{"ac", "ad"}), "ac") << "the first of those that are equally near";
}

TEST(Suggest, ListsKnownWordsForUnknownWord) {
  EXPECT_EQ(nearest("banana", kWords), "");
  EXPECT_EQ(suggestion("banana", kWords), "known: convert, info, tokenize");
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), kWords), "");
}

// Labels may be many, and rows with a wrong one, too.
TEST(Suggest, SkipsLongLists) {
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back("word" + std::to_string(i));
  EXPECT_EQ(nearest("wird7", many), "word7");
  many.push_back(std::string(1'000'000, 'x'));
  EXPECT_EQ(nearest("wird7", many), "");
  EXPECT_LT(suggestion("banana", many).size(), 1000U);
  EXPECT_TRUE(suggestion("banana", many).ends_with("word99 … (1001 in all)"));
}

TEST(ShellWord, KeepsPlainWords) {
  EXPECT_EQ(shell_word("runs/my-data_2.csv"), "runs/my-data_2.csv");
  EXPECT_EQ(shell_word("a,b"), "a,b");
}

TEST(ShellWord, QuotesBlanksAndSpecialCharacters) {
  EXPECT_EQ(shell_word("runs/my data"), "'runs/my data'");
  EXPECT_EQ(shell_word("$(rm x);"), "'$(rm x);'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("Größe"), "'Größe'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace exeunt
