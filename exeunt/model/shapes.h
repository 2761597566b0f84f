// SPDX-License-Identifier: Apache-2.0
// Shapes of well-known models by name, for `info` and `bench`.
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

// Throws Error (usage) that suggests the nearest name.
[[nodiscard]] const KnownShape& find_shape(std::string_view name);

}  // namespace exeunt
