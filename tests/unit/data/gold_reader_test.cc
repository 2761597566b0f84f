// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/gold_reader.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Dataset labelled_csv(std::string_view bytes, UserColumns columns = {}) {
  columns.format = DataFormat::csv;
  return parse_user_data(bytes, "f.csv", columns);
}

std::vector<float> gold_in(const Dataset& data) {
  std::vector<float> out;
  for (const Example& example : data.examples) out.push_back(example.gold);
  return out;
}

TEST(GoldReader, MergesSpellingsOfALabel) {
  const Dataset data = labelled_csv("text,label\na,ham\nb,\"ham \"\nc,Ham\nd,spam\ne,ham\n");
  EXPECT_THAT(data.labels, ElementsAre("ham", "spam"));
  EXPECT_THAT(gold_in(data), ElementsAre(0, 0, 0, 1, 0));
  EXPECT_THAT(data.notices,
              ElementsAre("f.csv: left out the blanks around the label of 1 row",
                          "f.csv: read 'Ham' (1 row) as 'ham'; name all with --labels if they are different"));
  EXPECT_THAT(labelled_csv("text,label\na, ham\nb, spam\n").notices,
              ElementsAre("f.csv: left out the blanks around the labels of 2 rows"));
  EXPECT_THAT(labelled_csv("text,label\na,ham\nb,spam\n").notices, IsEmpty());
}

TEST(GoldReader, NamesThreeMergedLabelsAndCountsTheOthers) {
  std::string rows = "text,label\na,one\nb,ONE\nc,two\nd,Two\ne,TWO\nf,two\ng,six\nh,Six\ni,six\n";
  EXPECT_THAT(labelled_csv(rows).notices,
              ElementsAre("f.csv: read 'one' (1 row) as 'ONE'; 'TWO' (1 row), 'Two' (1 row) as 'two'; 'Six' (1 row) as "
                          "'six'; name all with --labels if they are different"));
  rows += "j,ten\nk,Ten\nl,ten\n";
  EXPECT_THAT(labelled_csv(rows).notices,
              ElementsAre("f.csv: read 'one' (1 row) as 'ONE'; 'TWO' (1 row), 'Two' (1 row) as 'two'; 'Six' (1 row) as "
                          "'six' … (4 labels in all); name all with --labels if they are different"));
}

TEST(GoldReader, NoticesLabelsThatLookLikeSeveral) {
  const auto notices = [](std::string_view rows) { return labelled_csv("text,label\n" + std::string(rows)).notices; };
  EXPECT_THAT(notices("1,\"a, b\"\n2,a\n3,B\n4,\"a, b\"\n"),
              ElementsAre("f.csv: 2 rows with a label like 'a, b', and 3 labels made of 2 names: if rows have several "
                          "labels, write them as a|b and use --multi-label"));
  EXPECT_THAT(notices("1,a|b\n2,a\n3,b\n"),
              ElementsAre("f.csv: 1 row with a label like 'a|b', and 3 labels made of 2 names: if rows have several "
                          "labels, use --multi-label"));
  EXPECT_THAT(notices("1,\"Boston, MA\"\n2,\"Austin, TX\"\n3,\"Dallas, TX\"\n"), IsEmpty()) << "5 parts";
  std::string rare = "0,a;b\n";
  for (int i = 0; i < 5; ++i) rare += "1,a\n2,b\n";
  EXPECT_THAT(notices(rare), IsEmpty()) << "one row in eleven";
  UserColumns columns;
  columns.labels = {"a", "b", "a, b"};
  EXPECT_THAT(labelled_csv("text,label\n1,\"a, b\"\n2,a\n3,b\n", columns).notices, IsEmpty()) << "named by the user";
}

TEST(GoldReader, KeepsMostFrequentSpelling) {
  EXPECT_THAT(labelled_csv("text,label\na,Ham\nb,ham\nc,ham\nd,x\n").labels, ElementsAre("ham", "x"));
  EXPECT_THAT(labelled_csv("text,label\na,ham\nb,ham\nc,Ham\nd,x\n").labels, ElementsAre("ham", "x"));
  EXPECT_THAT(labelled_csv("text,label\na,ham\nb,Ham\nd,x\n").labels, ElementsAre("Ham", "x"))
      << "of two equally usual ones";
}

TEST(GoldReader, KeepsGivenLabelsApartAndFindsOthersAmongThem) {
  UserColumns columns;
  columns.labels = {"US", "us", "Other"};
  const Dataset data = labelled_csv("text,label\na,us\nb,US\nc, other\n", columns);
  EXPECT_THAT(gold_in(data), ElementsAre(1, 0, 2));
  EXPECT_THAT(data.notices, ElementsAre("f.csv: left out the blanks around the label of 1 row",
                                        "f.csv: read 'other' (1 row) as 'Other'"));
  EXPECT_THAT(error_of([&] { (void)labelled_csv("text,label\na,Us\n", columns); }).what(), HasSubstr("got label 'Us'"))
      << "either could be meant";
}

TEST(GoldReader, WholeNumbersAreClasses) {
  const Dataset data = labelled_csv("text,label\na,0.0\nb,1.0\nc,1.0\nd,10.0\ne,2.0\n");
  EXPECT_NE(data.problem, Problem::regression);
  EXPECT_THAT(data.labels, ElementsAre("0.0", "1.0", "2.0", "10.0"));
  EXPECT_EQ(labelled_csv("text,label\na,0.0\nb,1.5\n").problem, Problem::regression);
  UserColumns columns;
  columns.problem = Problem::regression;
  EXPECT_EQ(labelled_csv("text,label\na,0.0\nb,1.0\n", columns).problem, Problem::regression);
  columns = {};
  columns.labels = {"0", "1"};
  EXPECT_THAT(gold_in(labelled_csv("text,label\na,1.0\nb,0\n", columns)), ElementsAre(1, 0))
      << "as the model was trained";
}

TEST(GoldReader, RecognisesMissingValues) {
  for (const char* text : {"NA", "n/a", "NaN", " null ", "#N/A", "<NA>"}) EXPECT_TRUE(looks_missing(text)) << text;
  for (const char* text : {"", "none", "nay", "n"}) EXPECT_FALSE(looks_missing(text)) << text;
}

TEST(GoldReader, BadRowsAreCountedAndCanBeSkipped) {
  const std::string bytes = "text,label\na,x\nb,\nc,y\nd, \ne,NA\nf\n";
  const Error error = error_of([&] { (void)labelled_csv(bytes); });
  EXPECT_STREQ(error.what(), "f.csv:3: column 2 ('label'): got an empty label, want a name (and 2 more bad rows)");
  EXPECT_EQ(error.hint(), "--skip-bad leaves such rows out");
  UserColumns columns;
  columns.skip_bad = true;
  const Dataset data = labelled_csv(bytes, columns);
  EXPECT_THAT(data.labels, ElementsAre("x", "y"));
  EXPECT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.skipped, 4);
  EXPECT_THAT(data.notices, ElementsAre(HasSubstr("--skip-bad: skipped 4 bad rows, the first: f.csv:3")));
  EXPECT_THAT(error_of([&] { (void)labelled_csv("text,label\na,\n", columns); }).what(),
              HasSubstr("got an empty label"))
      << "nothing is left";
}

}  // namespace
}  // namespace exeunt
