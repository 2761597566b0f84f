// SPDX-License-Identifier: Apache-2.0
// Other systems' tensor names, brought to one form: prefixes gone, old spellings renewed, TensorFlow's paths turned
// into PyTorch's names. What is left is what schema()'s aliases say.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

enum class NameStyle { torch, tensorflow };

struct SourceTensor {
  std::string name;  // in the file
  TensorView view;   // kernels of TensorFlow already seen transposed
};

struct SourceTensors {
  std::map<std::string, SourceTensor, std::less<>> tensors;  // by the common form of the name
  std::string prefix;            // "bert." … as most of the file's names have it, or empty
  std::optional<Family> family;  // that the names give away

  [[nodiscard]] const SourceTensor* find(std::string_view name) const;
};

// Drops what is known to be of no use: buffers, pretraining heads, teachers' copies. Two names of the
// file that mean the same tensor are an Error; `where` opens its message.
[[nodiscard]] SourceTensors normalise_names(const TensorSet& set, NameStyle style, std::string_view where);

// The common form of one name; nothing if the tensor is of no use.
[[nodiscard]] std::optional<std::string> common_name(std::string_view name, NameStyle style);

}  // namespace exeunt
