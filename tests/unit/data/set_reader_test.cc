// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/data/gold_reader.h"
#include "tests/fixtures/growth.h"

namespace exeunt {
namespace {

Dataset read(const char* text, DataFormat format, UserColumns columns) {
  columns.format = format;
  return parse_user_data(text, "own", columns);
}

UserColumns lists() {
  UserColumns columns;
  columns.problem = Problem::multi_label;
  return columns;
}

TEST(SetReader, ReadsListsAndTextsWithBars) {
  for (const char* text : {"{\"text\":\"x\",\"label\":[\"b\",\"a\",\"b\"]}\n{\"text\":\"y\",\"label\":[]}\n"
                           "{\"text\":\"z\",\"label\":[\"c\",\"b\"]}\n",
                           "{\"text\":\"x\",\"label\":\"b | a\"}\n{\"text\":\"y\",\"label\":\"\"}\n"
                           "{\"text\":\"z\",\"label\":\"c|b\"}\n"}) {
    const Dataset data = read(text, DataFormat::jsonl, lists());
    EXPECT_TRUE(data.problem == Problem::multi_label && data.labelled);
    EXPECT_EQ(data.labels, (std::vector<std::string>{"a", "b", "c"}));
    ASSERT_EQ(data.examples.size(), 3U);
    EXPECT_EQ(data.examples[0].given, (std::vector<int>{0, 1}));
    EXPECT_TRUE(data.examples[1].given.empty());
    EXPECT_EQ(data.examples[2].given, (std::vector<int>{1, 2})) << "by name, not in the order they were met";
  }
  const Dataset table = read("text,label\nx,b|a\ny,\nz,c\n", DataFormat::csv, lists());
  EXPECT_EQ(table.examples[0].given, (std::vector<int>{0, 1}));
}

TEST(SetReader, ReadsAColumnForEachLabelInTheirOrder) {
  UserColumns columns;
  columns.label_columns = {"toxic", "rude"};
  const Dataset data = read("text,rude,toxic\nx,1,0\ny,0,\nz,True,1.0\n", DataFormat::csv, columns);
  EXPECT_EQ(data.labels, columns.label_columns);
  EXPECT_EQ(data.examples[0].given, (std::vector<int>{1}));
  EXPECT_TRUE(data.examples[1].given.empty());
  EXPECT_EQ(data.examples[2].given, (std::vector<int>{0, 1}));
  const Dataset lines = read("{\"text\":\"x\",\"rude\":true,\"toxic\":0}\n", DataFormat::jsonl, columns);
  EXPECT_EQ(lines.examples[0].given, (std::vector<int>{1}));
  EXPECT_THROW((void)read("text,rude,toxic\nx,2,0\n", DataFormat::csv, columns), Error);
  EXPECT_THROW((void)read("text,rude\nx,1\n", DataFormat::csv, columns), Error);
}

TEST(SetReader, ReadsManyLabelsInLinearTime) {
  const auto labelled = [](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += "{\"text\":\"x\",\"label\":[\"label " + std::to_string(i) + "\"]}\n";
    return text;
  };
  const auto parse = [](const std::string& text) { (void)read(text.c_str(), DataFormat::jsonl, lists()); };
  EXPECT_LT(growth_exponent(2000, labelled, parse), 1.5);
}

// As a model of several labels reads texts without labels.
TEST(SetReader, WithoutALabelColumnTheRowsHaveNoLabels) {
  UserColumns columns = lists();
  columns.labels = {"a", "b"};
  columns.label.clear();
  for (const auto& [text, format] : {std::pair("text,label\nsome words,c\n", DataFormat::csv),
                                     std::pair("{\"text\":\"some words\"}\n", DataFormat::jsonl)}) {
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
  EXPECT_THROW((void)read("text,label\nx,c\n", DataFormat::csv, columns), Error);
  Dataset data = read("text,label\nx,a|b\ny,a\n", DataFormat::csv, columns);
  EXPECT_EQ(data.labels, (std::vector<std::string>{"b", "a"}));
  reorder_labels(data, {"a", "other", "b"});
  EXPECT_EQ(data.examples[0].given, (std::vector<int>{0, 2}));
  EXPECT_EQ(data.examples[1].given, (std::vector<int>{0}));
}

}  // namespace
}  // namespace exeunt
