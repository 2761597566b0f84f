// SPDX-License-Identifier: Apache-2.0
// PyTorch's weight files (pytorch_model.bin, *.pt): the zip form of torch 1.6 and later, and the plain stream of
// pickles and storages before it. Tensors are views of the file, strided and shared ones too; no code runs.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "exeunt/base/crc.h"
#include "exeunt/base/files.h"
#include "exeunt/base/tensor.h"

namespace exeunt {

// Maps the file and returns the tensors of its state dict, which may be under "state_dict", "model_state_dict" or
// "model"; names are unchanged. Everything else in the file is validated and skipped. Throws Error.
[[nodiscard]] TensorSet read_torch(const ReadPath& path);

// The same for bytes in memory, which the caller keeps alive. `where` prefixes error messages.
[[nodiscard]] TensorSet parse_torch(std::span<const std::byte> bytes, std::string_view where);
[[nodiscard]] TensorSet parse_torch_zip(std::span<const std::byte> bytes, std::string_view where,
                                        CrcCheck crc = CrcCheck::verify);
[[nodiscard]] TensorSet parse_torch_legacy(std::span<const std::byte> bytes, std::string_view where);

}  // namespace exeunt
