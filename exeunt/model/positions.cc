// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/positions.h"

#include <algorithm>
#include <cmath>

namespace exeunt {

Rotation::Rotation(float base, int head_width, int positions) : positions_(static_cast<size_t>(positions)) {
  for (int i = 0; i < head_width / 2; ++i) {
    speeds_.push_back(1.0F / std::pow(base, static_cast<float>(2 * i) / static_cast<float>(head_width)));
  }
  rows_ = std::make_unique_for_overwrite<float[]>(positions_ * 2 * speeds_.size());
  begun_ = std::make_unique<std::once_flag[]>(positions_ / kBlock + 1);
}

void Rotation::compute(size_t block) const noexcept {
  const size_t pairs = speeds_.size(), end = std::min(positions_, (block + 1) * kBlock);
  for (size_t t = block * kBlock; t < end; ++t) {
    float* row = rows_.get() + t * 2 * pairs;
    for (size_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(t) * speeds_[i];
      row[i] = std::cos(angle);
      row[pairs + i] = std::sin(angle);
    }
  }
}

// He et al., "DeBERTa" (2021), and its code: half of the buckets are exact, the others end at `farthest` − 1.
int log_bucket(int distance, int buckets, int farthest) noexcept {
  const int middle = buckets / 2;
  if (distance <= middle) return distance;
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(middle)) /
                      std::log(static_cast<float>(farthest - 1) / static_cast<float>(middle));
  return static_cast<int>(std::ceil(share * static_cast<float>(middle - 1))) + middle;
}

DistanceBuckets::DistanceBuckets(const ModelSpec& spec) : half_(spec.relative_buckets) {
  for (int distance = 0; distance < spec.max_tokens(); ++distance) {
    buckets_.push_back(log_bucket(distance, spec.relative_buckets, spec.relative_distance));
  }
}

}  // namespace exeunt
