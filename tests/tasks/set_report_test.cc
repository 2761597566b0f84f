// SPDX-License-Identifier: Apache-2.0
#include "exeunt/tasks/set_report.h"

#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/tasks/set_reader.h"

namespace exeunt {
namespace {

// By scikit-learn's definitions for indicator matrices, worked out by hand.
TEST(SetReport, HasScikitLearnsFigures) {
  const std::vector<uint8_t> gold{1, 0, 0, /**/ 1, 1, 0, /**/ 0, 0, 0, /**/ 1, 1, 0};
  const std::vector<uint8_t> said{1, 0, 0, /**/ 1, 0, 1, /**/ 1, 0, 0, /**/ 0, 1, 0};
  const ClassReport report = set_report(said, gold, 3);
  // Label 0: 2 right of 3 said and 3 true; label 1: 1 right of 1 and 2; label 2: none of 1 and 0.
  EXPECT_NEAR(report.classes[0].f1, 2.0 / 3, 1e-12);
  EXPECT_NEAR(report.classes[1].f1, 2.0 / 3, 1e-12);
  EXPECT_EQ(report.classes[2].f1, 0);
  EXPECT_NEAR(report.classes[1].precision, 1, 1e-12);
  EXPECT_NEAR(report.classes[1].recall, 0.5, 1e-12);
  EXPECT_NEAR(report.macro_f1, 4.0 / 9, 1e-12);
  EXPECT_NEAR(report.micro_f1, 6.0 / 10, 1e-12);
  EXPECT_NEAR(report.weighted_f1, 2.0 / 3, 1e-12);
  EXPECT_TRUE(report.worst(5).empty());
  EXPECT_NEAR(exact_match(said, gold, 3), 0.25, 1e-12);
  const std::vector<Score> scores = score_sets(set_metrics(), said, gold, 3);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].metric, Metric::exact_match);
  EXPECT_NEAR(scores[1].value, 0.6, 1e-12);
  EXPECT_TRUE(std::isnan(exact_match({}, {}, 3)));
}

Dataset read(const char* text, UserFormat format, UserColumns columns) {
  columns.format = format;
  return parse_user_data(text, "own", columns);
}

UserColumns lists() {
  UserColumns columns;
  columns.several = true;
  return columns;
}

TEST(SetReader, ReadsListsAndTextsWithBars) {
  for (const char* text : {"{\"text\":\"x\",\"label\":[\"b\",\"a\",\"b\"]}\n{\"text\":\"y\",\"label\":[]}\n"
                           "{\"text\":\"z\",\"label\":[\"c\"]}\n",
                           "{\"text\":\"x\",\"label\":\"b | a\"}\n{\"text\":\"y\",\"label\":\"\"}\n"
                           "{\"text\":\"z\",\"label\":\"c\"}\n"}) {
    const Dataset data = read(text, UserFormat::jsonl, lists());
    EXPECT_TRUE(data.several && data.labelled);
    EXPECT_EQ(data.labels, (std::vector<std::string>{"a", "b", "c"}));
    ASSERT_EQ(data.examples.size(), 3U);
    EXPECT_EQ(data.examples[0].given, (std::vector<int>{0, 1}));
    EXPECT_TRUE(data.examples[1].given.empty());
    EXPECT_EQ(data.examples[2].given, (std::vector<int>{2}));
  }
  const Dataset table = read("text,label\nx,b|a\ny,\nz,c\n", UserFormat::csv, lists());
  EXPECT_EQ(table.examples[0].given, (std::vector<int>{0, 1}));
}

TEST(SetReader, ReadsAColumnForEachLabelInTheirOrder) {
  UserColumns columns;
  columns.label_columns = {"toxic", "rude"};
  const Dataset data = read("text,rude,toxic\nx,1,0\ny,0,\nz,True,1.0\n", UserFormat::csv, columns);
  EXPECT_EQ(data.labels, columns.label_columns);
  EXPECT_EQ(data.examples[0].given, (std::vector<int>{1}));
  EXPECT_TRUE(data.examples[1].given.empty());
  EXPECT_EQ(data.examples[2].given, (std::vector<int>{0, 1}));
  const Dataset lines = read("{\"text\":\"x\",\"rude\":true,\"toxic\":0}\n", UserFormat::jsonl, columns);
  EXPECT_EQ(lines.examples[0].given, (std::vector<int>{1}));
  EXPECT_THROW((void)read("text,rude,toxic\nx,2,0\n", UserFormat::csv, columns), Error);
  EXPECT_THROW((void)read("text,rude\nx,1\n", UserFormat::csv, columns), Error);
}

// As a model of several labels reads texts without labels.
TEST(SetReader, WithoutALabelColumnTheRowsHaveNoLabels) {
  UserColumns columns = lists();
  columns.labels = {"a", "b"};
  columns.label.clear();
  for (const auto& [text, format] : {std::pair("text,label\nsome words,c\n", UserFormat::csv),
                                     std::pair("{\"text\":\"some words\"}\n", UserFormat::jsonl)}) {
    const Dataset data = read(text, format, columns);
    EXPECT_FALSE(data.labelled);
    ASSERT_EQ(data.examples.size(), 1U);
    EXPECT_TRUE(data.examples[0].given.empty());
    EXPECT_TRUE(std::isnan(data.examples[0].gold));
  }
}

TEST(SetReader, RefusesLabelsThatAreNotNamedAndFollowsAModelsOrder) {
  UserColumns columns = lists();
  columns.labels = {"b", "a"};
  EXPECT_THROW((void)read("text,label\nx,c\n", UserFormat::csv, columns), Error);
  Dataset data = read("text,label\nx,a|b\ny,a\n", UserFormat::csv, columns);
  EXPECT_EQ(data.labels, (std::vector<std::string>{"b", "a"}));
  reorder_labels(data, {"a", "other", "b"});
  EXPECT_EQ(data.examples[0].given, (std::vector<int>{0, 2}));
  EXPECT_EQ(data.examples[1].given, (std::vector<int>{0}));
}

}  // namespace
}  // namespace exeunt
