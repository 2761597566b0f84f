// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/hold_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "exeunt/base/sha256.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

// `counts[label]` texts of each label, all different.
Dataset labelled_texts(const std::vector<int>& counts) {
  Dataset data;
  data.labelled = true;
  for (size_t label = 0; label < counts.size(); ++label) {
    data.labels.push_back(fmt::format("l{}", label));
    for (int i = 0; i < counts[label]; ++i) {
      data.examples.push_back({.text = fmt::format("text {} of {}", i, label),
                               .pair = {},
                               .gold = static_cast<float>(label),
                               .index = static_cast<int64_t>(data.examples.size())});
    }
  }
  return data;
}

std::set<std::string> texts_of(const Dataset& data) {
  std::set<std::string> out;
  for (const Example& example : data.examples) out.insert(example.text);
  return out;
}

std::map<float, int> count_labels(const Dataset& data) {
  std::map<float, int> out;
  for (const Example& example : data.examples) ++out[example.gold];
  return out;
}

TEST(HoldOut, IsStratifiedByLabelAndKeepsEveryRow) {
  Dataset data = labelled_texts({600, 300, 2});
  const std::set<std::string> all = texts_of(data);
  const HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(count_labels(held.eval), (std::map<float, int>{{0, 60}, {1, 30}}));
  EXPECT_EQ(count_labels(held.certify), (std::map<float, int>{{0, 120}, {1, 60}}));
  EXPECT_EQ(count_labels(data), (std::map<float, int>{{0, 420}, {1, 210}, {2, 2}}));
  std::set<std::string> again = texts_of(data);
  again.merge(texts_of(held.eval));
  again.merge(texts_of(held.certify));
  EXPECT_EQ(again, all);
  EXPECT_EQ(held.certify.labels, data.labels);
  EXPECT_TRUE(held.certify.labelled);
}

// What belongs together is learned or held out together, and the file of held-out rows says so.
TEST(HoldOut, KeepsClustersTogether) {
  for (const bool named : {false, true}) {
    Dataset data = labelled_texts({500, 500});
    for (size_t row = 0; row < data.examples.size(); ++row) {
      Example& example = data.examples[row];
      example.pair = example.text;
      example.text = fmt::format("question {}", row % 250);
      if (named) example.cluster = fmt::format("visit {}", row % 100);
    }
    const auto clusters_in = [](const Dataset& part) {
      std::set<std::string> out;
      for (const Example& example : part.examples) out.emplace(cluster_of(example));
      return out;
    };
    const HeldOut held = hold_out(data, 0.3);
    EXPECT_NEAR(static_cast<double>(held.certify.examples.size()), 200, 20);
    EXPECT_EQ(clusters_in(data).size() + clusters_in(held.eval).size() + clusters_in(held.certify).size(),
              named ? 100U : 250U);
    const Scratch scratch;
    scratch.write(kHeldOutFile, held_out_text(held.certify));
    EXPECT_EQ(clusters_in(read_held_out(scratch.path(), {})), clusters_in(held.certify));
    UserColumns none;
    none.cluster = "none";
    EXPECT_EQ(clusters_in(read_held_out(scratch.path(), none)), std::set<std::string>{""});
  }
}

// Training again must hold out the same rows: those of another split would have been learned. By the order of the
// texts' SHA-256, computed apart in Python.
TEST(HoldOut, ChoosesTheseTexts) {
  const auto numbers = [](const Dataset& data) {
    std::string out;
    for (const Example& example : data.examples) out += fmt::format("{} ", example.index);
    return out;
  };
  Dataset data = labelled_texts({30, 20});
  HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(numbers(held.eval), "2 5 9 39 42 ");
  EXPECT_EQ(numbers(held.certify), "7 14 15 16 26 27 36 37 41 44 ");
  data = labelled_texts({30, 20});
  for (Example& example : data.examples) example.pair = "b";
  held = hold_out(data, 0.3);
  EXPECT_EQ(numbers(held.eval), "5 14 24 45 48 ");
  EXPECT_EQ(numbers(held.certify), "3 11 13 19 21 25 32 34 36 41 ");
}

// Of several labels the last one stands for the row.
TEST(HoldOut, IsStratifiedByLastOfSeveralLabels) {
  Dataset data = labelled_texts({40, 40, 40});
  data.problem = Problem::multi_label;
  for (Example& example : data.examples) {
    const int label = static_cast<int>(example.gold);
    example.given = label == 0 ? std::vector<int>{} : label == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 2};
    example.gold = 0;
  }
  const HeldOut held = hold_out(data, 0.3);
  std::map<std::vector<int>, int> counts;
  for (const Example& example : held.certify.examples) ++counts[example.given];
  EXPECT_EQ(counts, (std::map<std::vector<int>, int>{{{}, 8}, {{0, 1}, 8}, {{0, 2}, 8}}));
  EXPECT_THAT(held_out_text(held.certify), testing::HasSubstr(",l0|l2\n"));
}

TEST(HoldOut, DoesNotDependOnRowOrder) {
  Dataset data = labelled_texts({200, 100}), turned = data;
  std::reverse(turned.examples.begin(), turned.examples.end());
  const HeldOut held = hold_out(data, 0.3), other = hold_out(turned, 0.3);
  EXPECT_EQ(texts_of(held.eval), texts_of(other.eval));
  EXPECT_EQ(texts_of(held.certify), texts_of(other.certify));
  EXPECT_EQ(texts_of(data), texts_of(turned));
}

TEST(HoldOut, KeepsDuplicateTextsInOnePart) {
  Dataset data = labelled_texts({100, 100});
  const std::vector<Example> once = data.examples;
  for (const Example& example : once) {
    data.examples.push_back(example);
    data.examples.back().gold = 1 - example.gold;  // the second time even with another label
  }
  const HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(held.certify.examples.size(), 80U);
  for (const std::string& text : texts_of(held.certify)) EXPECT_FALSE(texts_of(data).contains(text));
  for (const std::string& text : texts_of(held.eval)) {
    EXPECT_FALSE(texts_of(data).contains(text));
    EXPECT_FALSE(texts_of(held.certify).contains(text));
  }
}

// Texts that occur three times, where the share is no multiple of three: the rest goes to training.
TEST(HoldOut, RepeatedTextsDoNotExceedTheShare) {
  Dataset data = labelled_texts({100});
  const std::vector<Example> once = data.examples;
  for (int copy = 0; copy < 2; ++copy) data.examples.insert(data.examples.end(), once.begin(), once.end());
  const HeldOut held = hold_out(data, 0.1);
  EXPECT_EQ(held.certify.examples.size(), 18U);  // of 20
  EXPECT_EQ(held.eval.examples.size(), 9U);      // of 10
  EXPECT_EQ(data.examples.size(), 273U);
}

TEST(HoldOut, LimitsRowsOfLargeFiles) {
  Dataset data = labelled_texts({30000, 30000});
  const HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(held.eval.examples.size(), 2000U);
  EXPECT_EQ(held.certify.examples.size(), 4000U);
}

TEST(HoldOut, HoldsNothingOutOfSmallFiles) {
  Dataset data = labelled_texts({30, 19});
  const HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(data.examples.size(), 49U);
  EXPECT_TRUE(held.eval.examples.empty());
  EXPECT_TRUE(held.certify.examples.empty());
  Dataset enough = labelled_texts({30, 20});
  EXPECT_EQ(hold_out(enough, 0.3).certify.examples.size(), 10U);
  Dataset asked = labelled_texts({300});
  EXPECT_TRUE(hold_out(asked, 0).certify.examples.empty());
}

TEST(HoldOut, FileKeepsTextsPairsAndLabels) {
  const Scratch scratch;
  Dataset data = labelled_texts({2, 1});
  data.labels = {"a \"quoted\", name", "b"};
  data.examples[0].text = "two\nlines, \"and quotes\"";
  for (const bool pairs : {false, true}) {
    for (Example& example : data.examples) {
      if (pairs) example.pair = " second, with blanks ";
    }
    scratch.write("held-out.csv", held_out_text(data));
    UserColumns columns;
    columns.labels = data.labels;
    const Dataset again = read_held_out(scratch.path(), columns);
    EXPECT_EQ(again.sha256, sha256_file(scratch.path() / "held-out.csv"));
    ASSERT_EQ(again.examples.size(), data.examples.size());
    for (size_t row = 0; row < data.examples.size(); ++row) {
      EXPECT_EQ(again.examples[row].text, data.examples[row].text);
      EXPECT_EQ(again.examples[row].pair, data.examples[row].pair);
      EXPECT_EQ(again.examples[row].gold, data.examples[row].gold);
    }
  }
}

TEST(HoldOut, FileKeepsRegressionValuesExactly) {
  const Scratch scratch;
  Dataset data = labelled_texts({60});
  data.problem = Problem::regression;
  data.labels.clear();
  for (size_t row = 0; row < 60; ++row) data.examples[row].gold = std::sqrt(static_cast<float>(row));
  const HeldOut held = hold_out(data, 0.3);
  EXPECT_EQ(held.certify.examples.size(), 12U);
  scratch.write("held-out.csv", held_out_text(held.certify));
  UserColumns columns;
  columns.problem = Problem::regression;
  const Dataset again = read_held_out(scratch.path(), columns);
  for (size_t row = 0; row < 12; ++row) EXPECT_EQ(again.examples[row].gold, held.certify.examples[row].gold);
}

// Its rows are shown, and kept in traces and reports: a model folder must not name another file of its user's.
TEST(HoldOut, RejectsSymlinkOutsideFolder) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "model");
  scratch.write("others.csv", held_out_text(labelled_texts({2, 1})));
  const auto held_out = scratch.path() / "model" / kHeldOutFile;
  std::filesystem::create_symlink("../others.csv", held_out);
  EXPECT_THAT(error_of([&] { (void)read_held_out(scratch.path() / "model", {}); }).what(),
              testing::HasSubstr("outside the model folder"));
  std::filesystem::remove(held_out);
  std::filesystem::create_directory(held_out);  // nor are the tables of a folder read
  std::filesystem::copy(scratch.path() / "others.csv", held_out / "others.csv");
  EXPECT_THAT(error_of([&] { (void)read_held_out(scratch.path() / "model", {}); }).what(),
              testing::HasSubstr("want a regular file"));
  std::filesystem::remove_all(held_out);
  std::filesystem::copy(scratch.path() / "others.csv", held_out);
  EXPECT_EQ(read_held_out(scratch.path() / "model", {}).examples.size(), 3U);
}

}  // namespace
}  // namespace exeunt
