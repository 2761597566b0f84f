// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/graphemes.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;

std::vector<std::string> clusters(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, grapheme_bytes(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

TEST(Graphemes, AsciiCharactersAreClustersExceptCrLf) {
  EXPECT_THAT(clusters("ab\r\n\n\r"), ElementsAre("a", "b", "\r\n", "\n", "\r"));
}

TEST(Graphemes, MarksStayWithTheirBase) {
  EXPECT_THAT(clusters("e\u0301a\u0300\u0316b"), ElementsAre("e\u0301", "a\u0300\u0316", "b"));
  EXPECT_THAT(clusters("\u0915\u093Fx"), ElementsAre("\u0915\u093F", "x"));  // a spacing mark
  EXPECT_THAT(clusters("\n\u0301"), ElementsAre("\n", "\u0301"));            // not with a control
}

TEST(Graphemes, PrependGoesWithWhatFollows) {
  EXPECT_THAT(clusters("\u0600a\u0600\n"), ElementsAre("\u0600a", "\u0600", "\n"));
}

TEST(Graphemes, HangulSyllablesAreWhole) {
  EXPECT_THAT(clusters("\u1100\u1161\u11A8\u1100"), ElementsAre("\u1100\u1161\u11A8", "\u1100"));
  EXPECT_THAT(clusters("\uAC00\u11A8\uAC01\u1161"), ElementsAre("\uAC00\u11A8", "\uAC01", "\u1161"));
}

TEST(Graphemes, EmojiAreJoinedByZwjOnlyToEmoji) {
  EXPECT_THAT(clusters("\U0001F468\u200D\U0001F469x"), ElementsAre("\U0001F468\u200D\U0001F469", "x"));
  EXPECT_THAT(clusters("\u00A9\uFE0F\u200D\u00A9"), ElementsAre("\u00A9\uFE0F\u200D\u00A9"));
  EXPECT_THAT(clusters("a\u200D\u00A9"), ElementsAre("a\u200D", "\u00A9"));
  EXPECT_THAT(clusters("a\u0301\u200D\u00A9"), ElementsAre("a\u0301\u200D", "\u00A9"));
}

TEST(Graphemes, ConjunctsAreJoinedByAVirama) {
  EXPECT_THAT(clusters("\u0915\u094D\u0937"), ElementsAre("\u0915\u094D\u0937"));
  EXPECT_THAT(clusters("\u0915\u094D\u200D\u0937"), ElementsAre("\u0915\u094D\u200D\u0937"));
  EXPECT_THAT(clusters("\u0915\u0301\u0937"), ElementsAre("\u0915\u0301", "\u0937"));
}

}  // namespace
}  // namespace exeunt
