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

TEST(Suggest, ComparesWordsOfUpTo64Bytes) {
  const std::string word(63, 'a');
  EXPECT_EQ(nearest(word + "b", std::vector<std::string>{word}), word);
  EXPECT_EQ(nearest(word + "bb", std::vector<std::string>{word}), "");
  // A third of the word may be wrong, and two letters of a short one.
  EXPECT_EQ(nearest("abcdefghi", std::vector<std::string>{"abcdefxyz"}), "abcdefxyz");
  EXPECT_EQ(nearest("abcdefghi", std::vector<std::string>{"abcdexxyz"}), "");
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"axy"}), "axy");
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"abcde"}), "abcde");
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"abcdef"}), "");
}

TEST(Suggest, ListsUpTo100Words) {
  std::vector<std::string> words(100, "word");
  EXPECT_EQ(suggestion("something", words).find("in all"), std::string::npos);
  words.push_back("word");
  EXPECT_TRUE(suggestion("something", words).ends_with("word … (101 in all)"));
}

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
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
