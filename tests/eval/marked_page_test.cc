// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/marked_page.h"

#include "tests/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string made_up(const MarkedPlace& place) {
  return place.on_lines ? fmt::format("| {} |\n", place.name) : fmt::format("<{}>", place.name);
}

std::string filled(std::string_view page) {
  return fill_marks(page, "p.md", made_up).text;
}

std::string page_error(std::string_view page) {
  const Error error = error_of([&] { (void)filled(page); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error.what();
}

TEST(MarkedPage, KeepsItsWordsAndHasWhatIsMadeBetweenMarks) {
  constexpr std::string_view kPage =
      "# T\nIn <!-- from results: runs -->3<!-- end of results --> runs,\n"
      "<!-- from results: exits -->\nold\n\nolder\n<!-- end of results -->\nand more.";
  const MarkedPage page = fill_marks(kPage, "p.md", made_up);
  EXPECT_EQ(page.text,
            "# T\nIn <!-- from results: runs --><runs><!-- end of results --> runs,\n"
            "<!-- from results: exits -->\n| exits |\n<!-- end of results -->\nand more.");
  ASSERT_EQ(page.places.size(), 2U);
  EXPECT_EQ(page.places[0].line, 2U);
  EXPECT_EQ(page.places[1].line, 3U);
  EXPECT_EQ(filled(page.text), page.text);
  EXPECT_EQ(filled("<!-- from results: x -->\n<!-- end of results -->"),
            "<!-- from results: x -->\n| x |\n<!-- end of results -->");
}

TEST(MarkedPage, IsRefusedByLineWhereItsMarksDoNotFit) {
  EXPECT_EQ(page_error("words"), "p.md: got no mark in it, want <!-- from results: NAME -->");
  EXPECT_EQ(page_error("a\n<!-- from results: x -->\ntext"),
            "p.md:2: mark 'x': got no end of it, want <!-- end of results -->");
  EXPECT_EQ(page_error("a\n<!-- from results: x -->\n<!-- from results: y -->\n<!-- end of results -->"),
            "p.md:3: got a mark inside 'x' of line 2, want <!-- end of results --> before it");
  EXPECT_EQ(page_error("\n\n<!-- end of results --> a <!-- from results: x -->1<!-- end of results -->"),
            "p.md:3: got <!-- end of results --> without a mark before it");
  EXPECT_EQ(page_error("a <!-- from results: x -->1<!-- end of results -->\n<!-- end of results -->"),
            "p.md:2: got <!-- end of results --> without a mark before it");
  EXPECT_EQ(page_error("<!-- from results: x\n -->\n<!-- end of results -->"),
            "p.md:1: got a mark without ' -->' on its line, want <!-- from results: NAME -->");
  EXPECT_THAT(page_error("<!-- from results: x"), HasSubstr("p.md:1: got a mark without"));
  EXPECT_EQ(page_error("<!-- from results: x -->\n| 1 | <!-- end of results -->"),
            "p.md:2: mark 'x': got its end within a line, want it on its own");
}

// Markdown would show such a line as it stands, or the table inside a sentence.
TEST(MarkedPage, HasItsMarksWithinASentenceOrOnLinesOfTheirOwn) {
  EXPECT_EQ(page_error("<!-- from results: x -->1<!-- end of results -->"),
            "p.md:1: mark 'x': got it at the start of a line with words, want words before it or a line of its own");
  EXPECT_EQ(page_error("In <!-- from results: x -->\n1\n<!-- end of results -->"),
            "p.md:1: mark 'x': got it at the end of a line with words, want words before it or a line of its own");
}

TEST(FirstDifference, NamesTheLineAndBothOfItsForms) {
  EXPECT_FALSE(first_difference("a\nb", "a\nb"));
  const auto middle = first_difference("a\nbc\nd", "a\nbd\nd");
  ASSERT_TRUE(middle);
  EXPECT_EQ(middle->line, 2U);
  EXPECT_EQ(middle->got, "bc");
  EXPECT_EQ(middle->want, "bd");
  EXPECT_EQ(first_difference("ab", "b")->line, 1U);
  EXPECT_EQ(first_difference("a\n", "a\nb")->want, "b");
  EXPECT_EQ(first_difference("a\nb\n", "a\nc\n")->got, "b");
  EXPECT_EQ(first_difference("", "x\ny")->want, "x");
}

}  // namespace
}  // namespace exeunt
