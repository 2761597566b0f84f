// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/rows.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Table = std::vector<std::vector<std::string>>;

Table read(std::string_view bytes, DataFormat format, char separator = ',') {
  RowReader reader(bytes, "f", format, separator);
  Row row;
  Table out;
  while (reader.next(row)) out.emplace_back(row.fields.begin(), row.fields.end());
  return out;
}

Error csv_error(std::string_view bytes) {
  return error_of([&] { (void)read(bytes, DataFormat::csv); });
}

TEST(Rows, TsvHasNoQuoting) {
  EXPECT_EQ(read("\"a\t\"b\" c\t\n", DataFormat::tsv), (Table{{"\"a", "\"b\" c", ""}}));
}

TEST(Rows, AllLineEndingsEndARow) {
  EXPECT_EQ(read("a\nb\r\nc\rd", DataFormat::tsv), (Table{{"a"}, {"b"}, {"c"}, {"d"}}));
  EXPECT_EQ(read("a\nb\r\nc\rd\r", DataFormat::csv), (Table{{"a"}, {"b"}, {"c"}, {"d"}}));
  EXPECT_EQ(read("a\n\nb\n", DataFormat::lines), (Table{{"a"}, {""}, {"b"}}));
}

TEST(Rows, SkipsByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(read("\xEF\xBB\xBFq\tr\n\xEF\xBB\xBFs\tt\n", DataFormat::tsv), (Table{{"q", "r"}, {"\xEF\xBB\xBFs", "t"}}));
  EXPECT_EQ(read("\xEF\xBB\xBF\"q\",r", DataFormat::csv), (Table{{"q", "r"}}));
}

TEST(Rows, EmptyInputHasNoRows) {
  for (const auto format : {DataFormat::tsv, DataFormat::csv, DataFormat::lines}) {
    EXPECT_TRUE(read("", format).empty());
    EXPECT_TRUE(read("\xEF\xBB\xBF", format).empty());
  }
}

TEST(Rows, CsvFieldsMayHoldSeparatorsQuotesAndLineBreaks) {
  EXPECT_EQ(read("a,\"b,c\",\"say \"\"hi\"\"\"\r\n\"two\nlines\",,\"\"\n", DataFormat::csv),
            (Table{{"a", "b,c", "say \"hi\""}, {"two\nlines", "", ""}}));
  EXPECT_EQ(read("\"\"\"\",\"\"\"a\"\"\"", DataFormat::csv), (Table{{"\"", "\"a\""}}));
  EXPECT_EQ(read("a;\"b;c\"\n", DataFormat::csv, ';'), (Table{{"a", "b;c"}}));
  EXPECT_EQ(read("a,", DataFormat::csv), (Table{{"a", ""}}));
}

TEST(Rows, KeepsSeveralUnescapedFieldsOfARow) {
  std::string text;
  Table want(1);
  for (int i = 0; i < 100; ++i) {
    text += (i == 0 ? "" : ",") + std::string("\"x\"\"") + std::to_string(i) + "\"";
    want[0].push_back("x\"" + std::to_string(i));
  }
  EXPECT_EQ(read(text, DataFormat::csv), want);
}

TEST(Rows, LinesAreCountedThroughQuotedLineBreaks) {
  RowReader reader("h\r\n\"a\nb\r\nc\"\nd\n", "f", DataFormat::csv);
  Row row;
  std::vector<int64_t> lines;
  while (reader.next(row)) lines.push_back(row.line);
  EXPECT_THAT(lines, ElementsAre(1, 2, 5));
}

TEST(Rows, RejectsStrayQuotesWithPosition) {
  const Error inside = csv_error("a,b\nx,5\" screen\n");
  EXPECT_EQ(inside.code(), Code::bad_file);
  EXPECT_THAT(inside.what(), HasSubstr("f:2: column 2: got a quote inside a field"));
  EXPECT_THAT(inside.hint(), HasSubstr("twice"));
  EXPECT_THAT(csv_error("a,b\n\"x\"y,z\n").what(), HasSubstr("f:2: column 1: got 'y,z"));
  EXPECT_THAT(csv_error("a,b\n\nx,\"never\nclosed\n\n").what(), HasSubstr("f:3: column 2: got a quote that is never"));
  EXPECT_THAT(csv_error("\"").what(), HasSubstr("f:1: column 1: got a quote that is never closed"));
}

TEST(Rows, RejectsGiantRows) {
  const std::string wide(5000, '\t');
  EXPECT_THAT(error_of([&] { (void)read(wide, DataFormat::tsv); }).what(), HasSubstr("more than 4096 columns"));
  const std::string commas(5000, ',');
  EXPECT_THAT(csv_error(commas).what(), HasSubstr("more than 4096 columns"));
  const std::string longest(kMaxRowBytes + 1, 'x');
  EXPECT_THAT(error_of([&] { (void)read(longest, DataFormat::lines); }).what(), HasSubstr("got a row of 67108865"));
  EXPECT_THAT(csv_error(longest).what(), HasSubstr("got a row of"));
  EXPECT_THAT(csv_error("\"" + longest).what(), HasSubstr("never closed"));
}

TEST(Rows, RejectsInvalidUtf8WithLineColumnAndByte) {
  RowReader reader("a\tb\nok\tno \xFF good\n", "f", DataFormat::tsv);
  Row row;
  ASSERT_TRUE(reader.next(row));
  EXPECT_NO_THROW(check_utf8(row, "f", {}));
  ASSERT_TRUE(reader.next(row));
  const Error error = error_of([&] { check_utf8(row, "f", {"a", "b"}); });
  EXPECT_STREQ(error.what(), "f:2: column 2 ('b'): byte 4 is 0xFF, want valid UTF-8");
  EXPECT_THAT(error.hint(), HasSubstr("iconv"));
}

TEST(Rows, RejectsUtf16) {
  EXPECT_THAT(error_of([] {
                refuse_utf16(std::string_view("\xFF\xFE"
                                              "a\0",
                                              4),
                             "f");
              }).what(),
              HasSubstr("UTF-16"));
  EXPECT_THAT(error_of([] { refuse_utf16("\xFE\xFF", "f"); }).what(), HasSubstr("UTF-16"));
  EXPECT_NO_THROW(refuse_utf16("", "f"));
  EXPECT_NO_THROW(refuse_utf16("a", "f"));
}

TEST(Rows, ValuesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(shown("abc"), "'abc'");
  EXPECT_EQ(shown(""), "''");
  EXPECT_EQ(shown("a\tb"), "'a\\tb'") << "a table whose separator is another";
  EXPECT_EQ(shown("a\x1B[31m\xFF"), "'a\uFFFD[31m\uFFFD'");
  EXPECT_EQ(shown(std::string(100, 'x')), "'" + std::string(48, 'x') + "…'");
}

TEST(Rows, QuotesCsvFieldsWithCommasQuotesAndLineBreaks) {
  EXPECT_EQ(csv_field("entropy:0.1"), "entropy:0.1");
  EXPECT_EQ(csv_field("a \"b\", it's"), "\"a \"\"b\"\", it's\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_field("a\rb"), "\"a\rb\"");
}

}  // namespace
}  // namespace exeunt
