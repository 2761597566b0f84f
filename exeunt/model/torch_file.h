// SPDX-License-Identifier: Apache-2.0
// PyTorch's weight files (pytorch_model.bin, *.pt): the zip form of torch 1.6 and later, and the plain stream of
// pickles and storages before it. Tensors are views of the file, strided and shared ones too; no code runs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "exeunt/base/files.h"
#include "exeunt/base/gunzip.h"
#include "exeunt/base/tensor.h"
#include "exeunt/model/pickle.h"

namespace exeunt {

// Maps the file and returns the tensors of its state dict, which may be under "state_dict", "model_state_dict" or
// "model"; names are unchanged. Everything else in the file is validated and skipped. Throws Error.
[[nodiscard]] TensorSet read_torch(const ReadPath& path);

// The same for bytes in memory, which the caller keeps alive. `where` prefixes error messages.
[[nodiscard]] TensorSet parse_torch(std::span<const std::byte> bytes, std::string_view where);
[[nodiscard]] TensorSet parse_torch_zip(std::span<const std::byte> bytes, std::string_view where,
                                        CrcCheck crc = CrcCheck::verify);
[[nodiscard]] TensorSet parse_torch_legacy(std::span<const std::byte> bytes, std::string_view where);

// A run of elements of one type, named by a key. Tensors are views of it.
struct TorchStorage {
  DType dtype = DType::f32;
  uint64_t elements = 0;
  std::span<const std::byte> bytes = {};  // filled in by the reader of the file

  [[nodiscard]] std::optional<uint64_t> size() const noexcept;  // in bytes; nothing if that does not fit
};
using TorchStorages = std::map<std::string_view, TorchStorage>;

// How a form of file describes a storage: ("storage", type, key, device, elements) in zip files, and in the older
// stream one part more, None or (key, offset, elements) of a view.
enum class StorageForm { plain, with_view };

struct TorchPickle {
  const Pickle& pickle;
  std::string_view where;  // prefixes error messages
  StorageForm form;
};

// All storages the pickle names, without their bytes. One key has one type and one size everywhere.
[[nodiscard]] TorchStorages named_storages(const TorchPickle& source);

// The tensors of the state dict. Every tensor of the pickle, used or not, is checked against its storage.
[[nodiscard]] TensorSet state_dict(const TorchPickle& source, const TorchStorages& storages);

}  // namespace exeunt
