// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/batches.h"

#include <algorithm>
#include <numeric>

#include "exeunt/base/error.h"
#include "exeunt/base/random.h"

namespace exeunt {
namespace {

std::vector<size_t> rows_in_order(size_t rows) {
  std::vector<size_t> order(rows);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

std::vector<Batch> cut(const std::vector<size_t>& order, size_t size) {
  check(size > 0, "a batch has rows");
  std::vector<Batch> out;
  for (size_t first = 0; first < order.size(); first += size) {
    const size_t end = std::min(first + size, order.size());
    out.emplace_back(order.begin() + static_cast<int64_t>(first), order.begin() + static_cast<int64_t>(end));
  }
  return out;
}

// Longest first; rows of one length keep their order.
template <class Iterator>
void sort_by_length(Iterator first, Iterator end, std::span<const int64_t> offsets) {
  std::stable_sort(first, end,
                   [&](size_t a, size_t b) { return offsets[a + 1] - offsets[a] > offsets[b + 1] - offsets[b]; });
}

}  // namespace

std::vector<Batch> shuffled_batches(std::span<const int64_t> offsets, const ShuffleOptions& options) {
  check(!offsets.empty() && options.batch > 0, "offsets of rows, and a batch size");
  // The seed is mixed before the epoch is added, so that seed 42 of epoch 1 is not seed 43 of epoch 0.
  SplitMix64 random(SplitMix64(options.seed).next() + options.epoch);
  std::vector<size_t> order = rows_in_order(offsets.size() - 1);
  shuffle(order, random);
  if (options.window == 0) return cut(order, options.batch);
  const size_t run = options.window * options.batch;
  for (size_t first = 0; first < order.size(); first += run) {
    const size_t end = std::min(first + run, order.size());
    sort_by_length(order.begin() + static_cast<int64_t>(first), order.begin() + static_cast<int64_t>(end), offsets);
  }
  std::vector<Batch> out = cut(order, options.batch);
  shuffle(out, random);
  return out;
}

std::vector<Batch> bucketed_batches(std::span<const int64_t> offsets, const BucketLimits& limits) {
  check(!offsets.empty() && limits.rows > 0 && limits.tokens > 0, "offsets of rows, and limits above 0");
  std::vector<size_t> order = rows_in_order(offsets.size() - 1);
  sort_by_length(order.begin(), order.end(), offsets);
  std::vector<Batch> out;
  int64_t longest = 0;  // of the open batch: its first row
  for (const size_t row : order) {
    const auto rows_then = static_cast<int64_t>(out.empty() ? 0 : out.back().size()) + 1;
    const bool full = out.empty() || out.back().size() == limits.rows || longest * rows_then > limits.tokens;
    if (full) {
      out.emplace_back();
      longest = offsets[row + 1] - offsets[row];
    }
    out.back().push_back(row);
  }
  return out;
}

}  // namespace exeunt
