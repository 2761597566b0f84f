// SPDX-License-Identifier: Apache-2.0
// What counts for a reranker: pairs that share a first text are answers to one question, and their order should stay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/data/dataset.h"

namespace exeunt {

struct OrderKept {
  int64_t questions = 0;  // first texts with two answers or more
  double answers = 0;     // to each of them, on average
  double top = 1;         // share whose best answer stays the best
  double pairs = 1;       // share of pairs of answers whose order stays
};

// Are the answers by `early` in the order of those by `full`? Rows without a second text are left out.
[[nodiscard]] OrderKept order_kept(std::span<const Example> pairs, std::span<const float> full,
                                   std::span<const float> early);

// The rows from `first` on by cluster, in random order; each alone, in their order, where no two are of one cluster.
[[nodiscard]] std::vector<std::vector<size_t>> random_clusters(std::span<const Example> texts, size_t first,
                                                               uint64_t seed);

}  // namespace exeunt
