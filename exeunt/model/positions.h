// SPDX-License-Identifier: Apache-2.0
// Where tokens are, other than by a table that is added to the embeddings: rotary positions (ModernBERT) and buckets of
// distances (DeBERTa). Computed once for a model, in the same fp32 operations as transformers uses.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "exeunt/model/spec.h"

namespace exeunt {

// The angle of position t and pair i of a head's width w is t · base^(−2i / w). Memory is taken for all positions, but
// used only for those asked for: a configuration can tell of more than any text has.
class Rotation {
 public:
  Rotation(float base, int head_width, int positions);

  [[nodiscard]] int pairs() const noexcept { return static_cast<int>(speeds_.size()); }  // w / 2
  // [pairs]; any thread may ask.
  [[nodiscard]] const float* cosines(int position) const noexcept { return row(static_cast<size_t>(position)); }
  [[nodiscard]] const float* sines(int position) const noexcept {
    return row(static_cast<size_t>(position)) + speeds_.size();
  }

 private:
  static constexpr size_t kBlock = 256;  // positions that are computed together
  [[nodiscard]] const float* row(size_t position) const noexcept {
    const size_t block = position / kBlock;
    std::call_once(begun_[block], [&] { compute(block); });
    return rows_.get() + position * 2 * speeds_.size();
  }
  void compute(size_t block) const noexcept;

  size_t positions_;
  std::vector<float> speeds_ = {};
  std::unique_ptr<float[]> rows_;            // [positions, cosines and sines of all pairs]
  std::unique_ptr<std::once_flag[]> begun_;  // of each block
};

// Distances in buckets: those below half of `buckets` each have their own, larger ones share logarithmic ones.
class DistanceBuckets {
 public:
  explicit DistanceBuckets(const ModelSpec& spec);

  // The row of the table of distances for a query `distance` tokens behind its key, below zero if it is before it.
  [[nodiscard]] int row(int distance) const noexcept {
    const size_t apart = static_cast<size_t>(distance < 0 ? -distance : distance);
    const int bucket = buckets_[apart];
    const int row = distance < 0 ? half_ - bucket : half_ + bucket;
    return row < 0 ? 0 : row >= 2 * half_ ? 2 * half_ - 1 : row;
  }

 private:
  int half_;                  // rows of the table to either side
  std::vector<int> buckets_;  // of every distance the model meets
};

// DeBERTa's bucket of a distance from 0 on.
[[nodiscard]] int log_bucket(int distance, int buckets, int farthest) noexcept;

}  // namespace exeunt
