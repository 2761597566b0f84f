// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes without gaps.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/files.h"
#include "exeunt/base/tensor.h"

namespace exeunt {

// Maps one file and validates its whole header: types, sizes, no overlaps, no gaps, no duplicate names.
[[nodiscard]] TensorSet read_safetensors(const ReadPath& path);

// The same for bytes in memory; the caller keeps them alive. `where` prefixes error messages.
[[nodiscard]] TensorSet parse_safetensors(std::span<const std::byte> bytes, std::string_view where);

// Writes `tensors` in the given order, one tensor in memory at a time, atomically.
struct NamedTensor {
  std::string name;
  TensorView view;
};
using Metadata = std::vector<std::pair<std::string, std::string>>;
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {});

// Passes the same bytes to `sink` piece by piece: to hash a file without writing it, or while writing it.
using ByteSink = std::function<void(std::span<const std::byte>)>;
void stream_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata, const ByteSink& sink);

}  // namespace exeunt
