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
