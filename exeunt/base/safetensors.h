// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes without holes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/tensor.h"

namespace exeunt {

// Maps one file and checks all of its header: types, sizes, no overlap, no hole, no name twice.
[[nodiscard]] TensorSet read_safetensors(const std::filesystem::path& path);

// The same over bytes already in memory; the caller keeps them alive. `where` opens error messages.
[[nodiscard]] TensorSet parse_safetensors(std::span<const std::byte> bytes, std::string_view where);

// Writes `tensors` in the given order, one tensor in memory at a time, atomically.
struct NamedTensor {
  std::string name;
  TensorView view;
};
using Metadata = std::vector<std::pair<std::string, std::string>>;
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {});

// The same bytes handed to `sink` piece by piece: to hash a file without writing it, or while it is written.
using ByteSink = std::function<void(std::span<const std::byte>)>;
void stream_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata, const ByteSink& sink);

}  // namespace exeunt
