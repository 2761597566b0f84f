// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/labels.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Labels, ParsesWholeFieldAsNumber) {
  EXPECT_EQ(parse_number("3.8"), 3.8);
  EXPECT_EQ(parse_number(" 5.000 "), 5.0);
  EXPECT_EQ(parse_number("-1e-3"), -1e-3);
  EXPECT_EQ(parse_number("+2"), 2.0);
  for (const char* text : {"", " ", "3.8x", "x", "nan", "inf", "-inf", "1e999", "3,8", "+-2", "0x10", "1 2", "\t1"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

TEST(Labels, InferredOrderDoesNotDependOnTheRows) {
  std::vector<std::string> digits = {"10", "9", "-1", "2"};
  sort_labels(digits);
  EXPECT_THAT(digits, ElementsAre("-1", "2", "9", "10"));
  std::vector<std::string> words = {"no", "Yes", "10", "9"};
  sort_labels(words);
  EXPECT_THAT(words, ElementsAre("10", "9", "Yes", "no"));
  std::vector<std::string> twins = {"01", "1", "0"};
  sort_labels(twins);
  EXPECT_THAT(twins, ElementsAre("0", "01", "1"));
}

TEST(Labels, RejectsUnknownLabelWithTheKnownOnes) {
  const LabelIndex index({"entailment", "not_entailment"});
  EXPECT_EQ(index.gold("not_entailment", "f"), 1);
  const Error error = error_of([&] { (void)index.gold("entailmnet", "train.tsv:3: column 4 ('label')"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_STREQ(error.what(),
               "train.tsv:3: column 4 ('label'): got label 'entailmnet', want one of entailment, not_entailment");
  EXPECT_EQ(error.hint(), "did you mean 'entailment'?");
}

TEST(Labels, ListsEightKnownLabelsAndCountsTheOthers) {
  std::vector<std::string> labels = {"a", "b", "c", "d", "e", "f", "g", "h"};
  const auto refused = [&] { return error_of([&] { (void)LabelIndex(labels).gold("something", "f:2"); }); };
  EXPECT_STREQ(refused().what(), "f:2: got label 'something', want one of a, b, c, d, e, f, g, h");
  EXPECT_EQ(refused().hint(), "check that this is the label column and that the row has all its columns");
  labels.push_back("i");
  EXPECT_STREQ(refused().what(), "f:2: got label 'something', want one of a, b, c, d, e, f, g, h … (9 labels)");
}

TEST(Labels, ShortensLongUnknownLabel) {
  const LabelIndex index({"yes", "no"});
  const Error error = error_of([&] { (void)index.gold(std::string(1'000'000, 'x'), "f"); });
  EXPECT_LT(std::string(error.what()).size(), 200U);
}

TEST(Labels, RejectsDuplicateLabel) {
  const Error error = error_of([] { LabelIndex({"a", "b", "a"}); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("duplicate label 'a'"));
}

TEST(Labels, RejectsValuesOutOfRange) {
  EXPECT_FLOAT_EQ(gold_value("3.75", {{0, 5}}, "f"), 3.75F);
  EXPECT_EQ(gold_value("0", {{0, 5}}, "f"), 0);
  EXPECT_EQ(gold_value("5", {{0, 5}}, "f"), 5);
  EXPECT_THROW((void)gold_value("-0.1", {{0, 5}}, "f"), Error);
  EXPECT_THAT(error_of([] {
                (void)gold_value("5.001", {{0, 5}}, "f:2");
              }).what(),
              HasSubstr("f:2: got 5.001, want a number from 0 to 5"));
  EXPECT_THAT(error_of([] { (void)gold_value("high", {}, "f:2"); }).what(), HasSubstr("got 'high', want a finite"));
  EXPECT_THAT(error_of([] { (void)gold_value("1e200", {}, "f:2"); }).what(), HasSubstr("want a finite number"));
}

}  // namespace
}  // namespace exeunt
