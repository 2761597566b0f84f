// SPDX-License-Identifier: Apache-2.0
// Which weight files a folder holds, of which kind, and their tensors under the files' own names.
#pragma once

#include <filesystem>

#include "exeunt/base/tensor.h"
#include "exeunt/model/names.h"

namespace exeunt {

enum class WeightsKind { safetensors, safetensors_index, torch, torch_index, tensorflow };

struct WeightsFile {
  WeightsKind kind = WeightsKind::safetensors;
  std::filesystem::path path = {};    // the file, the index of its shards, or TensorFlow's .index
  std::filesystem::path folder = {};  // where configuration and tokenizer lie
};

// `model` is a folder or one of its weight files. safetensors come before PyTorch's files and these before
// TensorFlow's. Throws Error listing what was looked for.
[[nodiscard]] WeightsFile find_weights(const std::filesystem::path& model);

// Maps the files; tensors of all shards come as one set.
[[nodiscard]] TensorSet read_weights(const WeightsFile& file);

[[nodiscard]] inline NameStyle style_of(WeightsKind kind) noexcept {
  return kind == WeightsKind::tensorflow ? NameStyle::tensorflow : NameStyle::torch;
}

}  // namespace exeunt
