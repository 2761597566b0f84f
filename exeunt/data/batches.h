// SPDX-License-Identifier: Apache-2.0
// Batching: which rows go through a model together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace exeunt {

using Batch = std::vector<size_t>;  // rows

struct ShuffleOptions {
  size_t batch = 32;
  uint64_t seed = 42;
  uint64_t epoch = 0;
  // 0: plain shuffling, as in the papers. Otherwise each window of this many batches is sorted by length before it is
  // split into batches, which are shuffled again: little padding, random order.
  size_t window = 0;
};

// A new order for every epoch; the same seed and epoch give the same batches on every machine. The last batch may be
// smaller. `offsets` as in Features.
[[nodiscard]] std::vector<Batch> shuffled_batches(std::span<const int64_t> offsets, const ShuffleOptions& options);

struct BucketLimits {
  size_t rows = 64;
  int64_t tokens = 8192;  // rows × longest row, the size of a padded batch
};

// Groups rows of similar length, longest first, so that peak memory is reached at the start. A row longer than the
// token limit gets a batch of its own. Every row is in exactly one batch.
[[nodiscard]] std::vector<Batch> bucketed_batches(std::span<const int64_t> offsets, const BucketLimits& limits);

}  // namespace exeunt
