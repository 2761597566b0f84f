// SPDX-License-Identifier: Apache-2.0
// From the values of a pickle to tensors: which storages it names, and which views of them its state dict holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "exeunt/base/error.h"
#include "exeunt/base/tensor.h"
#include "exeunt/model/pickle.h"

namespace exeunt {

inline constexpr Hint kTorchHint{
    "save only the weights, torch.save(model.state_dict(), …), or re-save them with safetensors"};

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
