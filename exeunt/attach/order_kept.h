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

// An order of the rows in which questions that were drawn at random come last, each with all of its answers: as many as
// fit into `count` rows. The rows before `first` keep their places, and all do where no row has a second text.
[[nodiscard]] std::vector<size_t> whole_questions_last(std::span<const Example> pairs, size_t first, size_t count,
                                                       uint64_t seed);

}  // namespace exeunt
