// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/inspect.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Dataset own_rows(std::string_view bytes) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  return parse_user_data(bytes, "f.csv", columns);
}

std::string many_rows(const std::string& label, int count, int from = 0) {
  std::string out;
  for (int i = 0; i < count; ++i) out += fmt::format("text {} of {},{}\n", from + i, label, label);
  return out;
}

TEST(Inspect, FindsNothingInGoodData) {
  const Dataset data = own_rows("text,label\n" + many_rows("complaint", 20) + many_rows("praise", 10));
  const DataFacts facts = inspect(data);
  EXPECT_EQ(facts.rows, 30);
  EXPECT_THAT(facts.label_counts, ElementsAre(20, 10));
  EXPECT_EQ(facts.median_words, 4);
  EXPECT_THAT(warnings_of(facts, data, DataUse::learn), IsEmpty());
}

TEST(Inspect, CountsWhatIsOdd) {
  const Dataset data =
      own_rows("text,label\n" + many_rows("complaint", 60) + many_rows("praise", 60) + many_rows("complant", 2) +
               many_rows("NA", 6) + "text 0 of praise,complaint\ntext 1 of praise,praise\n");
  const DataFacts facts = inspect(data);
  EXPECT_THAT(facts.rare, ElementsAre("complant"));
  EXPECT_THAT(facts.missing, ElementsAre("NA"));
  EXPECT_EQ(facts.missing_rows, 6);
  ASSERT_EQ(facts.near.size(), 1U);
  EXPECT_EQ(facts.near[0].common, "complaint");
  EXPECT_EQ(facts.repeated, 2);
  EXPECT_EQ(facts.contradictions, 1);
  EXPECT_EQ(facts.first_contradiction, 128);
  EXPECT_THAT(warnings_of(facts, data, DataUse::learn),
              ElementsAre(HasSubstr("the label 'NA' (6) stands for a missing value"),
                          HasSubstr("labels 'complant' (2) and 'complaint' (61) differ by a letter or two"),
                          HasSubstr("1 of 4 labels has fewer than 5 rows, too few to learn: 'complant' (2)"),
                          HasSubstr("1 row repeats an earlier one's text with another label, the first is row 128")));
  EXPECT_EQ(warnings_of(facts, data, DataUse::measure).size(), 3U) << "rare labels matter to whoever learns";
}

TEST(Inspect, TypoHasMostOfTheLetters) {
  const auto near = [](const std::string& common, const std::string& rare) {
    return inspect(own_rows("text,label\n" + many_rows(common, 60) + many_rows(rare, 2))).near.size();
  };
  EXPECT_EQ(near("ham", "spam"), 0U);
  EXPECT_EQ(near("bad", "good"), 0U);
  EXPECT_EQ(near("spam", "sapm"), 1U);
  EXPECT_EQ(near("god", "good"), 1U);
}

TEST(Inspect, CountsWordsAndPairs) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  columns.pair = "pair";
  const Dataset data =
      parse_user_data("text,pair,label\none,two three,x\n\"a\tb  c\nd\",e,y\nw,w,x\n one , two,y\n", "f.csv", columns);
  const DataFacts facts = inspect(data);
  EXPECT_EQ(facts.rows, 4);
  EXPECT_EQ(facts.pairs, 4);
  EXPECT_EQ(facts.median_words, 3);
  EXPECT_EQ(facts.most_words, 5);
  EXPECT_EQ(facts.repeated, 0);
  EXPECT_EQ(inspect(own_rows("text,label\na,x\nb,y\n")).pairs, 0);
}

TEST(Inspect, NamesFiveLabelsAndCountsTheOthers) {
  std::string rows = "text,label\n" + many_rows("usual", 50);
  for (const char* label : {"aa", "bb", "cc", "dd", "ee"}) rows += many_rows(label, 4);
  const auto warnings = [](const std::string& bytes) {
    const Dataset data = own_rows(bytes);
    return warnings_of(inspect(data), data, DataUse::learn);
  };
  const std::string five = "'aa' (4), 'bb' (4), 'cc' (4), 'dd' (4), 'ee' (4)";
  EXPECT_THAT(warnings(rows), ElementsAre("f.csv: 5 of 6 labels have fewer than 5 rows, too few to learn: " + five));
  EXPECT_THAT(warnings(rows + many_rows("ff", 1)),
              ElementsAre("f.csv: 6 of 7 labels have fewer than 5 rows, too few to learn: " + five + " and 1 more"));
  EXPECT_THAT(warnings("text,label\n" + many_rows("usual", 5) + many_rows("aa", 5)), IsEmpty());
  EXPECT_THAT(warnings("text,label\n" + many_rows("usual", 4) + many_rows("aa", 4)), IsEmpty()) << "a small file";
}

TEST(Inspect, MentionsRepeatedRowsFromOnePercent) {
  const auto warnings = [](int rows) {
    const Dataset data = own_rows("text,label\n" + many_rows("x", rows - 7) + many_rows("y", 6) + "text 0 of x,x\n");
    EXPECT_EQ(inspect(data).repeated, 1);
    return warnings_of(inspect(data), data, DataUse::measure);
  };
  EXPECT_THAT(warnings(100), ElementsAre("f.csv: 1 of 100 rows repeat an earlier one's text"));
  EXPECT_THAT(warnings(101), IsEmpty());
  const Dataset data = own_rows("text,label\n" + many_rows("x", 9) + many_rows("y", 9) +
                                "text 0 of x,y\ntext 1 of x,y\ntext 2 of x,x\n");
  EXPECT_THAT(warnings_of(inspect(data), data, DataUse::measure),
              ElementsAre("f.csv: 2 rows repeat an earlier one's text with another label, the first is row 18"));
}

TEST(Inspect, SimilarLabelsAreOneRareAndOneTenTimesAsFrequent) {
  const auto near = [](const std::string& rare, int times, const std::string& common, int usual) {
    const Dataset data = own_rows("text,label\n" + many_rows(rare, times) + many_rows(common, usual));
    const std::vector<NearLabels> found = inspect(data).near;
    if (found.size() != 1) return std::string();
    return fmt::format("{} {} {} {}", found[0].rare, found[0].rare_rows, found[0].common, found[0].common_rows);
  };
  EXPECT_EQ(near("complant", 2, "complaint", 20), "complant 2 complaint 20");
  EXPECT_EQ(near("complant", 2, "complaint", 19), "");
  EXPECT_EQ(near("complan", 2, "complaint", 20), "complan 2 complaint 20");
  EXPECT_EQ(near("compla", 2, "complaint", 20), "") << "three letters";
  EXPECT_EQ(near("hams", 1, "ham", 10), "hams 1 ham 10");
  EXPECT_EQ(near("hat", 1, "hats", 10), "") << "too short to tell";
}

TEST(Inspect, ListsLabelsWithoutRows) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  columns.labels = {"x", "NA", "y"};
  const Dataset data = parse_user_data("text,label\na,x\n", "f.csv", columns);
  const DataFacts facts = inspect(data);
  EXPECT_THAT(facts.absent, ElementsAre("NA", "y"));
  EXPECT_THAT(facts.missing, IsEmpty());
  EXPECT_THAT(facts.rare, ElementsAre("x"));
}

TEST(Inspect, ListsTwentyProblemsAndCountsAll) {
  const Scratch scratch;
  std::string rows = "text,label\na,x\nb,y\n";
  for (int i = 0; i < 20; ++i) rows += "c\n";
  UserReport report = check_user_data(scratch.write("d.csv", rows).string(), {});
  EXPECT_EQ(report.problem_count, 20);
  EXPECT_EQ(report.problems.size(), 20U);
  EXPECT_EQ(report.facts.rows, 2);
  report = check_user_data(scratch.write("d.csv", rows + "c\n").string(), {});
  EXPECT_EQ(report.problem_count, 21);
  EXPECT_EQ(report.problems.size(), 20U);
}

TEST(Inspect, NumberedLabelsAreNotTypos) {
  const Dataset data = own_rows("text,label\n" + many_rows("topic 1", 60) + many_rows("topic 2", 6));
  EXPECT_THAT(inspect(data).near, IsEmpty());
}

TEST(Inspect, CountsRowsThatTwoFilesShare) {
  const Dataset a = own_rows("text,label\n" + many_rows("x", 5) + many_rows("y", 5));
  const Dataset b = own_rows("text,label\n" + many_rows("x", 5, 3) + many_rows("y", 1, 9));
  EXPECT_EQ(shared_rows(a, b), 2);
  EXPECT_EQ(shared_rows(b, a), 2);
}

}  // namespace
}  // namespace exeunt
