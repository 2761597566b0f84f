// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/order_kept.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "exeunt/base/random.h"

namespace exeunt {
namespace {

using Rows = std::vector<size_t>;

std::map<std::string_view, Rows> questions_of(std::span<const Example> pairs) {
  std::map<std::string_view, Rows> questions;
  for (size_t row = 0; row < pairs.size(); ++row) {
    if (pairs[row].pair) questions[pairs[row].text].push_back(row);
  }
  return questions;
}

}  // namespace

OrderKept order_kept(std::span<const Example> pairs, std::span<const float> full, std::span<const float> early) {
  OrderKept kept;
  int64_t answers = 0, tops = 0, ordered = 0, all = 0;
  for (const auto& [text, rows] : questions_of(pairs)) {
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

std::vector<std::vector<size_t>> random_clusters(std::span<const Example> texts, size_t first, uint64_t seed) {
  std::vector<Rows> clusters;
  std::map<std::string_view, Rows> named;
  for (size_t row = first; row < texts.size(); ++row) {
    const std::string_view name = cluster_of(texts[row]);
    name.empty() ? clusters.push_back({row}) : named[name].push_back(row);
  }
  for (auto& [name, rows] : named) clusters.push_back(std::move(rows));
  if (clusters.size() + first == texts.size()) {
    std::sort(clusters.begin(), clusters.end());
  } else {
    SplitMix64 random(seed);
    shuffle(clusters, random);
  }
  return clusters;
}

}  // namespace exeunt
