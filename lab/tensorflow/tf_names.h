// SPDX-License-Identifier: Apache-2.0
// The tensors of Google's checkpoints under PyTorch's names, of the family "bert" unless they say otherwise.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "exeunt/base/tensor.h"

namespace exeunt {

// "encoder.layer.0.attention.self.query.weight" for "bert/encoder/layer_0/attention/self/query/kernel"; nothing for a
// tensor of pretraining.
[[nodiscard]] std::optional<std::string> torch_name(std::string_view path);

// Names as PyTorch's files have them, and kernels seen transposed: TensorFlow multiplies from the left, [in, out].
// Throws Error (prefixed by `where`) for two names of one tensor.
[[nodiscard]] TensorSet with_torch_names(TensorSet set, std::string_view where);

// A TensorFlowReader: read_tf_checkpoint() of tf_bundle.h with_torch_names().
[[nodiscard]] TensorSet read_tf_model(const std::filesystem::path& index, const std::filesystem::path& folder);

}  // namespace exeunt
