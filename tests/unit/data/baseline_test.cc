// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/baseline.h"

#include "exeunt/data/user_data.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

Dataset table_of(const std::string& rows, bool pairs = false) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  if (pairs) columns.pair = "pair";
  return parse_user_data((pairs ? "text,pair,label\n" : "text,label\n") + rows, "f.csv", columns);
}

// Texts of a few words of which one tells the label.
std::string topics(int from, int count) {
  const char* words[] = {"refund", "card", "transfer"};
  const char* filler[] = {"my", "please", "about", "the", "today", "again", "when"};
  std::string out;
  for (int i = from; i < from + count; ++i) {
    out += fmt::format("{} {}{} {} {},{}\n", filler[i % 7], words[i % 3], i % 2 == 0 ? "s" : "", filler[i * 5 % 7],
                       filler[i * 3 % 7], words[i % 3]);
  }
  return out;
}

TEST(Baseline, LinearModelLearnsWordsAndTheirForms) {
  const std::vector<BaselineScore> scores =
      baseline(table_of(topics(0, 60)), table_of(topics(60, 30)), {Metric::accuracy});
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].name, "majority class");
  EXPECT_NEAR(scores[0].metrics[0].value, 1.0 / 3, 1e-12);
  EXPECT_EQ(scores[1].name, "linear model");
  EXPECT_EQ(scores[1].metrics[0].value, 1.0);
}

TEST(Baseline, DistinguishesTheTextsOfAPair) {
  const std::string rows = "good,bad,first\nbad,good,second\nfine good,bad so,first\nvery bad,good one,second\n";
  const Dataset data = table_of(rows, true);
  std::vector<float> gold;
  for (const Example& example : data.examples) gold.push_back(example.gold);
  EXPECT_EQ(LinearModel(data).answers(data), gold);
}

TEST(Baseline, LearnsRegression) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += fmt::format("word{} {},{}\n", i, i % 2 == 0 ? "high" : "low", i % 2 == 0 ? 4.5 : 1.25);
  const Dataset data = table_of(rows);
  ASSERT_EQ(data.problem, Problem::regression);
  const std::vector<BaselineScore> scores = baseline(data, data, {Metric::pearson});
  EXPECT_EQ(scores[0].name, "mean of the labels");
  EXPECT_GT(scores[1].metrics[0].value, 0.99);
  EXPECT_NEAR(majority_answer(data).at(0), 2.875, 1e-6);
}

// Two words tell two labels, each on its own.
TEST(Baseline, LearnsEachOfSeveralLabels) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  columns.problem = Problem::multi_label;
  std::string rows = "text,label\n";
  for (int i = 0; i < 80; ++i) {
    rows += fmt::format("item{} {} {},{}\n", i, i % 2 == 0 ? "rude" : "polite", i % 4 < 3 ? "noise" : "quiet",
                        i % 4 == 0   ? "angry|loud"
                        : i % 4 == 1 ? "loud"
                        : i % 4 == 2 ? "angry|loud"
                                     : "");
  }
  const Dataset data = parse_user_data(rows, "f.csv", columns);
  ASSERT_EQ(data.problem, Problem::multi_label);
  EXPECT_EQ(majority_answer(data), (std::vector<float>{1, 1}));
  const std::vector<BaselineScore> scores = baseline(data, data, default_metrics(Problem::multi_label, 3));
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].name, "majority set");
  EXPECT_EQ(scores[0].metrics[0].metric, Metric::exact_match);
  EXPECT_EQ(scores[0].metrics[0].value, 0.5) << "two of four rows have both labels";
  EXPECT_EQ(scores[1].name, "linear model");
  EXPECT_EQ(scores[1].metrics[0].value, 1.0);
}

TEST(Baseline, NamesBaselineThatBeatsTheNetwork) {
  const std::vector<BaselineScore> scores{{"majority class", {{Metric::accuracy, 0.5}, {Metric::f1, 0.0}}},
                                          {"linear model", {{Metric::accuracy, 0.8}, {Metric::f1, 0.75}}}};
  EXPECT_EQ(baseline_lines(scores), (std::vector<std::string>{"majority class: accuracy 50.00, f1 0.00",
                                                              "linear model: accuracy 80.00, f1 75.00"}));
  EXPECT_EQ(lost_to_baseline(scores, Metric::accuracy, 0.4),
            "the linear model does better than the network, accuracy 80.00 against 40.00: train longer (--epochs) or "
            "faster (--lr), bring more rows, or start from another encoder (--model)");
  EXPECT_EQ(lost_to_baseline(scores, Metric::accuracy, 0.8), "");
  EXPECT_EQ(lost_to_baseline(scores, Metric::f1, 0.76), "");
  EXPECT_EQ(lost_to_baseline({}, Metric::accuracy, 0.1), "");
}

// The numbers that words, pairs of them and their parts, rarity and AdaGrad come to, computed apart in Python.
TEST(Baseline, PredictsTheseValues) {
  const Dataset train =
      table_of("Good film,it's fine,4.5\nbad film,so bad bad,1.25\ngood plot,it is,3.5\nno,no no,2\n", true);
  const Dataset test = table_of("good bad film,it's,0.5\nplot,no,0.5\nfine,x,0.5\nÄ no film,fine,0.5\n", true);
  const std::vector<float> answers = LinearModel(train).answers(test);
  EXPECT_THAT(answers, testing::Pointwise(testing::FloatNear(1e-4F), {3.55277F, 2.25462F, 2.94551F, 2.99134F}));
}

// Above 20,000 rows every so many are learned from: here the odd ones are left out, which alone have the other label.
TEST(Baseline, LearnsFromEvenlyChosenRows) {
  std::string rows;
  for (int i = 0; i < 40000; ++i) rows += i % 2 == 0 ? (i % 4 == 0 ? "a,x\n" : "b,y\n") : "a,y\n";
  const Dataset data = table_of(rows), test = table_of("a,x\nb,y\n");
  EXPECT_EQ(baseline(data, test, {Metric::accuracy})[1].metrics[0].value, 1.0);
}

TEST(Baseline, IsDeterministic) {
  const Dataset train = table_of(topics(0, 60)), test = table_of(topics(60, 60));
  EXPECT_EQ(LinearModel(train).answers(test), LinearModel(train).answers(test));
}

}  // namespace
}  // namespace exeunt
