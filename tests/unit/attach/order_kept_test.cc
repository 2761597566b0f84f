// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/order_kept.h"

#include <string>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

Example pair(const std::string& question) {
  return {.text = question, .pair = "x", .gold = 0, .index = 0};
}

TEST(OrderKept, CountsTopsAndPairsOfEachQuestion) {
  const std::vector<Example> pairs{pair("a"), pair("a"), pair("a"), pair("b"), pair("c"), pair("c")};
  const std::vector<float> full{3, 2, 1, 0, 1, 2}, early{3, 1, 2, 0, 2, 1};
  const OrderKept kept = order_kept(pairs, full, early);
  EXPECT_EQ(kept.questions, 2);
  EXPECT_EQ(kept.answers, 2.5);
  EXPECT_EQ(kept.top, 0.5);
  EXPECT_EQ(kept.pairs, 0.5);
  EXPECT_EQ(order_kept(std::span(pairs).subspan(3, 1), full, early).questions, 0);
}

TEST(RandomClusters, KeepTheAnswersToAQuestionTogether) {
  std::vector<Example> pairs;
  for (int row = 0; row < 200; ++row) pairs.push_back(pair(std::to_string(row * 7 % 40)));  // 5 answers to each of 40
  const auto clusters = random_clusters(pairs, 30, 1);
  EXPECT_EQ(clusters.size(), 40U);
  size_t rows = 0;
  for (const std::vector<size_t>& cluster : clusters) {
    rows += cluster.size();
    for (const size_t row : cluster) {
      EXPECT_GE(row, 30U);
      EXPECT_EQ(pairs[row].text, pairs[cluster.front()].text);
    }
  }
  EXPECT_EQ(rows, 170U);
  EXPECT_NE(random_clusters(pairs, 30, 2), clusters);
  for (Example& each : pairs) each.cluster = "";  // "none"
  EXPECT_EQ(random_clusters(pairs, 0, 1).size(), 200U);
}

TEST(RandomClusters, LeaveRowsInTheirOrderWhereNoneBelongTogether) {
  const std::vector<std::vector<size_t>> as_they_are{{0}, {1}, {2}};
  std::vector<Example> texts(3, {.text = "a", .pair = {}, .gold = 0, .index = 0});
  EXPECT_EQ(random_clusters(texts, 0, 2), as_they_are);
  for (const char* name : {"c", "b", "a"}) texts[static_cast<size_t>('c' - name[0])].cluster = name;
  EXPECT_EQ(random_clusters(texts, 0, 2), as_they_are);
}

}  // namespace
}  // namespace exeunt
