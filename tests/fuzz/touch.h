// SPDX-License-Identifier: Apache-2.0
// Reads every element of every tensor: a view that leaves its bytes is then seen by the address sanitizer.
#pragma once

#include <vector>

#include "exeunt/base/tensor.h"

namespace exeunt {

inline void touch_all(const TensorSet& set) {
  for (const auto& [name, view] : set.tensors) {
    std::vector<std::byte> raw(static_cast<size_t>(view.elements()) * size_of(view.dtype));
    copy_raw(view, raw);
  }
}

}  // namespace exeunt
