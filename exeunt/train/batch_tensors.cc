// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/batch_tensors.h"

#include <algorithm>

namespace exeunt::nn {

TrainBatch batch_tensors(const Features& features, std::span<const size_t> rows, const BatchShape& shape) {
  size_t longest = 0;
  for (const size_t row : rows) longest = std::max(longest, features.length(row));
  const auto multiple = static_cast<size_t>(shape.multiple);
  const size_t padded = (longest + multiple - 1) / multiple * multiple;
  longest = std::max(longest, std::min(padded, static_cast<size_t>(shape.most)));
  const std::vector<int64_t> sides{static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)};
  const bool pinned = shape.device.is_cuda();
  const auto kind = [&](torch::ScalarType type) { return torch::TensorOptions(type).pinned_memory(pinned); };
  const Tensor ids = torch::full(sides, shape.pad_id, kind(torch::kLong)),
               types = torch::zeros(sides, kind(torch::kLong)), real = torch::zeros(sides, kind(torch::kBool));
  const auto labels = static_cast<int64_t>(features.sets.size() / std::max<size_t>(1, features.rows()));
  const Tensor gold =
      labels > 0 ? torch::empty({sides[0], labels}, kind(torch::kFloat))
                 : torch::empty({sides[0]}, kind(shape.problem == Problem::regression ? torch::kFloat : torch::kLong));
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto row_ids = features.ids_of(rows[n]);
    const auto row_types = features.types_of(rows[n]);
    std::copy(row_ids.begin(), row_ids.end(), ids.data_ptr<int64_t>() + n * longest);
    std::copy(row_types.begin(), row_types.end(), types.data_ptr<int64_t>() + n * longest);
    std::fill_n(real.data_ptr<bool>() + n * longest, row_ids.size(), true);
    if (labels > 0) {
      std::copy_n(features.sets.begin() + static_cast<int64_t>(rows[n]) * labels, labels,
                  gold.data_ptr<float>() + static_cast<int64_t>(n) * labels);
    } else if (shape.problem == Problem::regression) {
      gold.data_ptr<float>()[n] = features.gold[rows[n]];
    } else {
      gold.data_ptr<int64_t>()[n] = static_cast<int64_t>(features.gold[rows[n]]);
    }
  }
  const auto there = [&](const Tensor& tensor) { return tensor.to(shape.device, /*non_blocking=*/true); };
  return {{there(ids), there(types), there(real)}, there(gold)};
}

}  // namespace exeunt::nn
