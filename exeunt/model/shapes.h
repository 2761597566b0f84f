// SPDX-License-Identifier: Apache-2.0
// Well-known models by name: their shapes alone, for `info` and `bench`.
#pragma once

#include <string_view>
#include <vector>

#include "exeunt/model/spec.h"

namespace exeunt {

struct KnownShape {
  std::string_view name;
  ModelSpec spec;
};

[[nodiscard]] const std::vector<KnownShape>& known_shapes();

// Throws Error usage that names the nearest.
[[nodiscard]] const KnownShape& find_shape(std::string_view name);

}  // namespace exeunt
