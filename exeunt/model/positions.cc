// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/positions.h"

#include <cmath>

namespace exeunt {

Rotation::Rotation(float base, int head_width, int positions) : pairs_(head_width / 2) {
  std::vector<float> speeds;
  for (int i = 0; i < pairs_; ++i) {
    speeds.push_back(1.0F / std::pow(base, static_cast<float>(2 * i) / static_cast<float>(head_width)));
  }
  for (int t = 0; t < positions; ++t) {
    for (const float speed : speeds) {
      const float angle = static_cast<float>(t) * speed;
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
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
