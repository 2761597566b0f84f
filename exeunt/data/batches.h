// SPDX-License-Identifier: Apache-2.0
// Which rows go through a model together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace exeunt {

using Batch = std::vector<size_t>;  // rows

// Rows in their order, `size` at a time; the last batch may be short.
[[nodiscard]] std::vector<Batch> batches_in_order(size_t rows, size_t size);

struct ShuffleOptions {
  size_t batch = 32;
  uint64_t seed = 42;
  uint64_t epoch = 0;
  // 0: plain shuffling, as the papers train. More: each run of this many batches is sorted by length before it is cut
  // up and the batches shuffled again, which keeps padding low and the order random.
  size_t window = 0;
};

// A new order for every epoch; the same seed and epoch give the same batches on every machine. The last batch may be
// short. `offsets` as Features has them.
[[nodiscard]] std::vector<Batch> shuffled_batches(std::span<const int64_t> offsets, const ShuffleOptions& options);

struct BucketLimits {
  size_t rows = 64;
  int64_t tokens = 8192;  // rows × longest row, what a padded batch would hold
};

// Rows of like length together, longest first, so that memory is at its highest at once and not at the end. A row
// longer than the limit of tokens makes a batch of its own. Every row is in exactly one batch.
[[nodiscard]] std::vector<Batch> bucketed_batches(std::span<const int64_t> offsets, const BucketLimits& limits);

}  // namespace exeunt
