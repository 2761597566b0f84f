// SPDX-License-Identifier: Apache-2.0
// Finds the weight files of a folder and reads their tensors under the files' names.
#pragma once

#include <filesystem>
#include <string>

#include "exeunt/base/tensor.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/names.h"

namespace exeunt {

enum class WeightsKind { safetensors, safetensors_index, torch, torch_index, tensorflow };

struct WeightsFile {
  WeightsKind kind = WeightsKind::safetensors;
  std::filesystem::path path = {};    // the file, the index of its shards, or TensorFlow's .index
  std::filesystem::path folder = {};  // of the configuration and the tokenizer
  bool named = false;                 // the file itself, by its user: it may lie anywhere
};

// `model` is a folder or one of its weight files. safetensors are preferred to PyTorch's files and these to
// TensorFlow's. Throws Error listing what was looked for.
[[nodiscard]] WeightsFile find_weights(const std::filesystem::path& model);

// Reads the tensors of TensorFlow's .index file; files of the checkpoint must lie in `folder` unless it is empty.
using TensorFlowReader = TensorSet (*)(const std::filesystem::path& index, const std::filesystem::path& folder);

// Maps the files; the tensors of all shards are one set. Throws Unknown for TensorFlow's without a reader for them.
[[nodiscard]] TensorSet read_weights(const WeightsFile& file, TensorFlowReader read_tensorflow = nullptr);

// Checkpoint::open(), which has no reader of TensorFlow's, with one.
[[nodiscard]] Checkpoint open_checkpoint(const std::string& model, const OpenOptions& options,
                                         TensorFlowReader read_tensorflow);

[[nodiscard]] inline NameStyle style_of(WeightsKind kind) noexcept {
  return kind == WeightsKind::tensorflow ? NameStyle::tensorflow : NameStyle::torch;
}

}  // namespace exeunt
