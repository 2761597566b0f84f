// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/order_kept.h"

#include <algorithm>
#include <map>
#include <numeric>
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

TEST(WholeQuestionsLast, KeepsTheAnswersToAQuestionTogether) {
  std::vector<Example> pairs;
  for (int row = 0; row < 200; ++row) pairs.push_back(pair(std::to_string(row * 7 % 40)));  // 5 answers to each of 40
  constexpr size_t kFirst = 30, kCount = 50;
  const std::vector<size_t> order = whole_questions_last(pairs, kFirst, kCount, 1);
  std::vector<size_t> sorted = order, every(pairs.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(every.begin(), every.end(), size_t{0});
  EXPECT_EQ(sorted, every);
  EXPECT_TRUE(std::equal(order.begin(), order.begin() + kFirst, every.begin()));
  // Whoever has a row at the end has none before, but for the rows that have to stay where they are.
  std::map<std::string, size_t> before, after;
  for (size_t i = kFirst; i < order.size() - kCount; ++i) ++before[pairs[order[i]].text];
  for (size_t i = order.size() - kCount; i < order.size(); ++i) ++after[pairs[order[i]].text];
  size_t divided = 0;
  for (const auto& [question, rows] : after) divided += before.contains(question) ? 1 : 0;
  EXPECT_LE(divided, 3U);  // who gets the room that is left: less than the four answers of the smallest question
  EXPECT_GE(after.size(), 10U);
  EXPECT_NE(whole_questions_last(pairs, kFirst, kCount, 2), order);
}

TEST(WholeQuestionsLast, LeavesSingleTextsAndQuestionsWithoutRoomWhereTheyAre) {
  const std::vector<size_t> as_they_are{0, 1, 2};
  std::vector<Example> texts(3, {.text = "a", .pair = {}, .gold = 0, .index = 0});
  EXPECT_EQ(whole_questions_last(texts, 0, 2, 1), as_they_are);
  for (Example& text : texts) text.pair = "x";
  EXPECT_EQ(whole_questions_last(texts, 0, 2, 1), as_they_are);
}

}  // namespace
}  // namespace exeunt
