// SPDX-License-Identifier: Apache-2.0
// Other systems' tensor names in one common form: without prefixes, in current spelling, TensorFlow's paths as
// PyTorch's names. These are the names that schema()'s aliases use.
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
  std::optional<Family> family;  // as the names tell

  [[nodiscard]] const SourceTensor* find(std::string_view name) const;
};

// Drops buffers, pretraining heads and teachers' copies. Two names of the file for the same tensor are an Error;
// `where` opens its message.
[[nodiscard]] SourceTensors normalise_names(const TensorSet& set, NameStyle style, std::string_view where);

// The common form of one name; nothing for a tensor that is dropped.
[[nodiscard]] std::optional<std::string> common_name(std::string_view name, NameStyle style);

}  // namespace exeunt
