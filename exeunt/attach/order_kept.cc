// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/order_kept.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "exeunt/base/random.h"

namespace exeunt {
namespace {

using Rows = std::vector<size_t>;

// The rows of each question, from `first` on.
std::map<std::string_view, Rows> questions_of(std::span<const Example> pairs, size_t first) {
  std::map<std::string_view, Rows> questions;
  for (size_t row = first; row < pairs.size(); ++row) {
    if (pairs[row].pair) questions[pairs[row].text].push_back(row);
  }
  return questions;
}

}  // namespace

OrderKept order_kept(std::span<const Example> pairs, std::span<const float> full, std::span<const float> early) {
  OrderKept kept;
  int64_t answers = 0, tops = 0, ordered = 0, all = 0;
  for (const auto& [text, rows] : questions_of(pairs, 0)) {
    if (rows.size() < 2) continue;
    ++kept.questions;
    answers += static_cast<int64_t>(rows.size());
    const auto best = [&, &rows = rows](std::span<const float> values) {
      return *std::max_element(rows.begin(), rows.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
    };
    tops += best(full) == best(early) ? 1 : 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        ++all;
        ordered += (full[rows[i]] < full[rows[j]]) == (early[rows[i]] < early[rows[j]]) ? 1 : 0;
      }
    }
  }
  if (kept.questions == 0) return kept;
  const auto questions = static_cast<double>(kept.questions);
  kept.answers = static_cast<double>(answers) / questions;
  kept.top = static_cast<double>(tops) / questions;
  kept.pairs = static_cast<double>(ordered) / static_cast<double>(all);
  return kept;
}

std::vector<size_t> whole_questions_last(std::span<const Example> pairs, size_t first, size_t count, uint64_t seed) {
  std::vector<Rows> questions;
  for (auto& [text, rows] : questions_of(pairs, first)) questions.push_back(std::move(rows));
  SplitMix64 random(seed);
  shuffle(questions, random);
  std::vector<bool> last(pairs.size());
  for (const Rows& rows : questions) {
    if (rows.size() > count) continue;
    for (const size_t row : rows) last[row] = true;
    count -= rows.size();
  }
  Rows order;
  for (const bool part : {false, true}) {
    for (size_t row = 0; row < pairs.size(); ++row) {
      if (last[row] == part) order.push_back(row);
    }
  }
  return order;
}

}  // namespace exeunt
